"""Everything between observations and grants, shared by the simulator, the live system and the conformance world.

No clock, no I/O: a world states facts, the kernel makes a view of them, asks the policy, and says what changes.
"""
