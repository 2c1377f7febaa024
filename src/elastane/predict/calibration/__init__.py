"""Measures operators on this machine, in the shapes and surroundings of real networks.  Imports PyTorch."""
