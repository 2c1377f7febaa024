"""Policies as users write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.policies.contract import Needs, Policy
from elastane.policies.options import OptionError, configure, split_policies, split_written
from elastane.policies.plan import Order, Plan
from elastane.policies.view import View


@dataclass(frozen=True)
class Sample(Policy):
    whole: int = 1
    number: float = 0.5
    flag: bool = False
    word: str = "a"
    limit: float | None = None

    name: ClassVar[str] = "sample"
    title: ClassVar[str] = "Sample"
    paper: ClassVar[str] = "none"
    needs: ClassVar[Needs] = Needs()

    def decide(self, view: View) -> Plan:
        return Plan(Order(tuple(view.jobs)))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        (" a , b(x=1,y=2) ,c", ["a", "b(x=1,y=2)", "c"]),
        ("a,,b,", ["a", "b"]),
        ("", []),
    ],
)
def test_commas_separate_policies_but_not_inside_parentheses(text: str, parts: list[str]) -> None:
    assert split_policies(text) == parts


@pytest.mark.parametrize("text", ["a(x=1", "a)", "a,b((x=1)"])
def test_parentheses_that_do_not_match_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="parentheses"):
        split_policies(text)


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("pollux", "pollux", {}),
        ("pollux()", "pollux", {}),
        (" optimus-oracle ( x = 1 , ) ", "optimus-oracle", {"x": "1"}),
        ("t(thresholds=1/2/3)", "t", {"thresholds": "1/2/3"}),
        ("t(a=b=c)", "t", {"a": "b=c"}),
    ],
)
def test_name_and_options_are_told_apart(text: str, name: str, options: dict[str, str]) -> None:
    assert split_written(text) == (name, options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "NAME"),
        ("two words", "NAME"),
        ("p(x)", "x=…"),
        ("p(x=1,x=2)", "x is given twice"),
        ("p(x=1)y", "NAME"),
    ],
)
def test_what_is_not_written_so_is_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        split_written(text)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.integers(), max_size=5))
def test_what_is_written_is_read_back(options: dict[str, int]) -> None:
    written = "p(" + ",".join(f"{name}={value}" for name, value in options.items()) + ")"
    assert split_written(written) == ("p", {name: str(value) for name, value in options.items()})
    assert split_policies(f"{written},{written}") == [written, written]


def test_options_take_the_type_of_their_field() -> None:
    options = {"whole": "7", "number": "-inf", "flag": "Yes", "word": "b", "limit": "3"}
    assert configure(Sample, options) == Sample(7, float("-inf"), True, "b", 3.0)
    assert configure(Sample, {"limit": "none", "flag": "off"}) == Sample()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"whole": "1.5"}, "whole is a whole number, not '1.5'"),
        ({"number": "much"}, "number is a number, not 'much'"),
        ({"number": "nan"}, "number is a number, not 'nan'"),
        ({"limit": "x"}, "limit is a number"),
        ({"flag": "maybe"}, "flag is true or false"),
        (
            {"wholes": "1"},
            "no option 'wholes'; did you mean 'whole'.*options: flag, limit, number, whole, word",
        ),
    ],
)
def test_a_wrong_option_is_named_with_what_was_expected(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        configure(Sample, options)


def test_a_label_can_be_read_back() -> None:
    policy = Sample(whole=3, word="b")
    name, options = split_written(policy.label())
    assert name == "sample"
    assert configure(Sample, options) == policy
    assert Sample().label() == "sample"
    assert policy.parameters()["whole"] == 3
