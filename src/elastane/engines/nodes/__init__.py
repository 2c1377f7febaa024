"""Nodes on other machines: they dial the hub on the head, which speaks for them to everybody there."""
