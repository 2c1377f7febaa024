"""Engines for tests: one without processes, in the time of a given clock."""
