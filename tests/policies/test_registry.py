"""Every policy by name, ours and others'."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from elastane.errors import ElastaneError
from elastane.policies import registry
from elastane.policies.registry import GROUP, make_policy, policy_class, policy_names
from elastane.policies.tiresias import Tiresias


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A package of somebody else's that offers a good policy, a wrong object and a module that cannot be loaded."""
    module = ModuleType("foreign_policies")

    class Theirs(Tiresias):
        name = "theirs"

    module.Theirs, module.wrong = Theirs, 42  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "foreign_policies", module)
    targets = {"theirs": "Theirs", "wrong": "wrong", "missing": "Nothing", "tiresias": "Theirs"}
    points = [EntryPoint(name, f"foreign_policies:{attribute}", GROUP) for name, attribute in targets.items()]
    points.append(EntryPoint("broken", "no_such_module:Policy", GROUP))
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == GROUP else [])
    for cached in (registry._third_party, policy_class):
        cached.cache_clear()
    yield module
    for cached in (registry._third_party, policy_class):
        cached.cache_clear()


def test_a_name_leads_to_its_class() -> None:
    assert policy_class("tiresias") is Tiresias
    assert make_policy("tiresias(index=gittins)") == Tiresias(index="gittins")


@pytest.mark.parametrize("name", policy_names())
def test_built_in_policies_carry_the_name_they_are_found_under(name: str) -> None:
    found = policy_class(name)
    assert found.name == name
    assert found.title
    assert found().label() == name


def test_an_unknown_name_gets_a_suggestion_and_the_list() -> None:
    with pytest.raises(
        ElastaneError, match=r"unknown policy 'tiresia'; did you mean 'tiresias'.*known: .*pollux"
    ):
        make_policy("tiresia")


def test_a_foreign_policy_is_found(foreign: ModuleType) -> None:
    assert policy_class("theirs") is foreign.Theirs
    assert "theirs" in policy_names()


def test_a_foreign_policy_cannot_replace_ours(foreign: ModuleType) -> None:
    assert policy_class("tiresias") is Tiresias
    assert policy_names().count("tiresias") == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [("broken", "cannot be loaded"), ("missing", "cannot be loaded"), ("wrong", "is not a Policy class")],
)
def test_a_broken_policy_says_so_and_hides_no_other(foreign: ModuleType, name: str, message: str) -> None:
    with pytest.raises(ElastaneError, match=rf"policy '{name}'.*{message}"):
        make_policy(name)
    assert make_policy("theirs").name == "theirs"


def test_whatever_a_foreign_module_raises_becomes_one_sentence(
    foreign: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(name: str) -> ModuleType:
        raise SyntaxError(f"bad {name}")

    monkeypatch.setattr("importlib.import_module", explode)
    with pytest.raises(ElastaneError, match="cannot be loaded: bad"):
        make_policy("theirs")
