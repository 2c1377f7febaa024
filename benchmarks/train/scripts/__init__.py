"""Training scripts of the benchmarks: run as programs, never imported (but for what they share)."""
