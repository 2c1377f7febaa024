"""Settings of the whole suite."""

from hypothesis import settings

# The same examples on every machine and in every run: a failure can be repeated, a green run stays green.
# To look for new examples: pytest --hypothesis-profile=search
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("search", derandomize=False, deadline=None, max_examples=500)
settings.load_profile("repeatable")
