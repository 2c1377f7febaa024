"""Cost models tried on timings that they have not seen: rows left out, and cards left out."""
