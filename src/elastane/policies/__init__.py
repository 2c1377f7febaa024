"""The policy contract, the shared code that lowers plans to grants, and one module per published system."""
