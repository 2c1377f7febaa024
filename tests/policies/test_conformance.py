"""Every policy that can be imported keeps the promises of the contract."""

from __future__ import annotations

from pathlib import Path

import elastane
from elastane.errors import ElastaneError
from elastane.policies.registry import make_policy, policy_class, policy_names
from elastane.testing.policies import PolicyConformance

VARIANTS = {
    "fifo": ("fifo(mode=hoard)", "fifo(mode=fit)"),
    "tiresias": ("tiresias(index=gittins)", "tiresias(thresholds=300/3000,promote=2)"),
    "pollux": ("pollux(search=genetic,population=10,generations=5)",),
}
"""Besides the defaults; the genetic search is small because the suite asks it very often."""

ADJUSTED = {"pollux(search=genetic,population=10,generations=5)": {"patience": 8, "examples": 8}}
"""A genetic search goes on from its last population, so it may find something better when asked again."""


def _suites() -> dict[str, type[PolicyConformance]]:
    suites = {}
    for name in policy_names():
        try:
            policy_class(name)
        except ElastaneError:  # reported by the test below, and no reason to leave the others untested
            continue
        for written in (name, *VARIANTS.get(name, ())):
            title = "Test" + written.replace("-", "_")
            content = {"policy": make_policy(written), **ADJUSTED.get(written, {})}
            suites[title] = type(title, (PolicyConformance,), content)
    return suites


globals().update(_suites())


def test_the_defaults_of_all_policies_can_be_made() -> None:
    for name in policy_names():
        assert make_policy(name).name == name


def test_running_elastane_does_not_need_the_suite() -> None:
    """pytest and hypothesis are for developers: no module outside the suite imports it."""
    package = Path(elastane.__file__).parent
    users = [
        path.relative_to(package)
        for path in package.rglob("*.py")
        if package / "testing" not in path.parents and "testing.policies" in path.read_text(encoding="utf-8")
    ]
    assert users == []
