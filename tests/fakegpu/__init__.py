"""A pretend GPU for tests: memory that the host cannot touch, late streams, a communicator with NCCL's manners.

A test that asks for the fixture ``fakegpu`` runs in a process of its own, forked from one that has loaded the
extension: a process has one policy of streams and one context of devices, and tests of CPUs must not find a GPU.
Where there is no compiler, or no headers, such tests are skipped with the reason.
"""
