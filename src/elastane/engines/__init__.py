"""Engines run workers on nodes: their contract, and the engines."""
