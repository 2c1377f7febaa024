"""Every policy by name: the built-in ones, and those that other packages register.

A package offers a policy through the entry point group ``elastane.policies``; a broken one does not hide the others.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import entry_points

from elastane.errors import ElastaneError
from elastane.policies.contract import Policy
from elastane.policies.options import configure, split_written
from elastane.suggest import did_you_mean

GROUP = "elastane.policies"

_BUILT_IN = {
    "fifo": "elastane.policies.fifo:Fifo",
    "easy": "elastane.policies.easy:Easy",
    "drf": "elastane.policies.drf:Drf",
    "srtf": "elastane.policies.srtf:Srtf",
    "srsf": "elastane.policies.srtf:Srsf",
    "tiresias": "elastane.policies.tiresias:Tiresias",
    "optimus": "elastane.policies.optimus:Optimus",
    "optimus-oracle": "elastane.policies.optimus:OptimusOracle",
    "themis": "elastane.policies.themis:Themis",
    "themis-oracle": "elastane.policies.themis:ThemisOracle",
    "gavel": "elastane.policies.gavel:Gavel",
    "gavel-oracle": "elastane.policies.gavel:GavelOracle",
    "pollux": "elastane.policies.pollux:Pollux",
    "sia": "elastane.policies.sia:Sia",
    "elasticflow": "elastane.policies.elasticflow:ElasticFlow",
    "elasticflow-oracle": "elastane.policies.elasticflow:ElasticFlowOracle",
    "slaq": "elastane.policies.slaq:Slaq",
    "pickyman": "elastane.policies.pickyman:PickyMan",
    "elastane": "elastane.policies.elastane:Elastane",
    "elastane-oracle": "elastane.policies.elastane:ElastaneOracle",
}


def policy_names() -> tuple[str, ...]:
    """Returns all names a user may write, built-in ones first."""
    return (*_BUILT_IN, *(name for name in _third_party() if name not in _BUILT_IN))


def live_names() -> tuple[str, ...]:
    """Returns the names of policies that can decide on a live cluster: all that do not need an oracle."""
    return tuple(name for name in policy_names() if _knows_enough(name))


def _knows_enough(name: str) -> bool:
    try:
        return not policy_class(name).needs.oracle
    except ElastaneError:  # one that is broken can decide nothing
        return False


@cache
def _third_party() -> dict[str, str]:
    return {point.name: point.value for point in sorted(entry_points(group=GROUP), key=lambda p: p.name)}


@cache
def policy_class(name: str) -> type[Policy]:
    """Loads the class behind a name; an unknown or broken one is an ``ElastaneError``."""
    target = _BUILT_IN.get(name) or _third_party().get(name)
    if target is None:
        hint = did_you_mean(name, policy_names())
        raise ElastaneError(f"unknown policy {name!r}{hint} (known: {', '.join(policy_names())})")
    module, _, attribute = target.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever a foreign module does when it is imported
        raise ElastaneError(f"policy {name!r} ({target}) cannot be loaded: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Policy)):
        raise ElastaneError(f"policy {name!r} ({target}) is not a Policy class")
    return found


def make_policy(written: str) -> Policy:
    """Makes the policy a user wrote, such as ``tiresias`` or ``pollux(search=genetic,p=-1)``."""
    name, options = split_written(written)
    return configure(policy_class(name), options)


def make_live_policy(written: str) -> Policy:
    """Makes the policy a user wrote for a live cluster; one that needs an oracle is refused."""
    name, options = split_written(written)
    known = f"(known here: {', '.join(live_names())})"
    if name not in policy_names():
        raise ElastaneError(f"unknown policy {name!r}{did_you_mean(name, live_names())} {known}")
    policy = configure(policy_class(name), options)
    if policy.needs.oracle:
        raise ElastaneError(f"policy {name!r} needs to know the future, so it is for simulations only {known}")
    return policy
