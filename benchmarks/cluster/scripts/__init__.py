"""Training scripts that the benchmarks of the cluster run."""
