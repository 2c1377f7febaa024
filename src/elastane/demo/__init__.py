"""The demo of the live system: five real jobs on a small cluster of its own, some trouble, and the story of it."""
