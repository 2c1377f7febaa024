"""The worker: its training loop, its membership in a group, joining and leaving, and its checkpoints."""
