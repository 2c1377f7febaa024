"""The conformance suite: inherit it, name your policy, and every promise of the contract is tested.

    class TestMine(PolicyConformance):
        policy = Smallest()

Needs pytest and hypothesis, which running Elastane does not; nothing else in the package imports this.
"""

import pytest

pytest.register_assert_rewrite(f"{__name__}.checks", f"{__name__}.suite")

from elastane.testing.policies.jobs import Trial  # noqa: E402
from elastane.testing.policies.suite import PolicyConformance  # noqa: E402
from elastane.testing.policies.views import random_view, views  # noqa: E402
from elastane.testing.policies.world import World  # noqa: E402

__all__ = ["PolicyConformance", "Trial", "World", "random_view", "views"]
