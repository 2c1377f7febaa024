"""The control plane: jobs are taken in, reports heard, decisions made and grants brought about, in one loop."""
