"""Ground truth, workloads, trace loaders, metrics and reports around the event core."""
