"""Deeds of hostile jobs, by what they attack; ``scripts/poison.py`` runs one of them by name."""
