"""Tests cost models on timings that they were not fitted to: rows left out, and cards left out."""
