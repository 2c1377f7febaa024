"""Nodes on other machines: how they join, and how code and logs travel between them and the head."""
