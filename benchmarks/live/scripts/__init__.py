"""Jobs of the benchmarks: run as programs, never imported."""
