"""The event core: advances jobs under a policy from any state.  No workloads, no reports."""
