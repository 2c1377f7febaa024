"""The coordinator decides who takes part in a job: plans, generations, leases, processes. No tensors here."""
