"""A recorded decision can be made again, byte for byte, by whoever reads it."""

from __future__ import annotations

import json
from random import Random

import pytest

from elastane.policies.registry import live_names, make_policy
from elastane.policies.view import masked
from elastane.scheduling.decide import decide
from elastane.scheduling.record import decide_again, decision_to_json, plain, view_from_json, view_to_json
from elastane.testing.policies.views import random_view

POLICIES = live_names()
"""All that can decide live: whoever registers one is tested."""


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", range(4))
def test_the_same_policy_decides_the_same_again_from_its_record(name: str, seed: int) -> None:
    policy = make_policy(name)
    view = masked(random_view(Random(seed)), policy.needs.info)
    decided = plain(decision_to_json(decide(policy, view)))
    recorded = json.loads(json.dumps(view_to_json(view)))
    assert decide_again(policy, recorded) == decided


@pytest.mark.parametrize("seed", range(8))
def test_a_view_survives_its_record_twice(seed: int) -> None:
    view = masked(random_view(Random(seed)), make_policy("elastane").needs.info)
    once = plain(view_to_json(view))
    assert plain(view_to_json(view_from_json(once))) == once
