"""Settings of the whole suite."""

import os

from hypothesis import settings
from hypothesis.internal.conjecture import providers

pytest_plugins = ("fakegpu.plugin",)

# Tests may run as root; their jobs are their own.
os.environ.setdefault("ELASTANE_JOBS_AS", "me")

# The same examples on every machine and in every run: a failure can be repeated, a green run stays green.
# To look for new examples: pytest --hypothesis-profile=search
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("search", derandomize=False, deadline=None, max_examples=500)
settings.load_profile("repeatable")

# Hypothesis also tries constants that it finds in whichever of our modules happen to be loaded.  Then the examples of
# every test would change with every change of the code, and with the order of the tests.
_NONE = getattr(providers, "_local_constants", None)
if _NONE is not None and hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: _NONE
