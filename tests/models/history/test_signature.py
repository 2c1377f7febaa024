"""How much two jobs are alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.models.history.signature import Signature, similarity

FULL = Signature("bert", "vision", "s1", "c1", "m1", batch=32, data_size=1000, workers=4, types=("a100",))

names = st.sampled_from(["", "a", "b"])
signatures = st.builds(
    Signature,
    app=names,
    tenant=st.sampled_from(["default", "other"]),
    script=names,
    config=names,
    model=names,
    batch=st.integers(0, 10_000),
    data_size=st.integers(0, 10**9),
    workers=st.integers(0, 64),
    types=st.sampled_from([(), ("t4",), ("a100", "t4")]),
)


def test_the_same_script_with_the_same_arguments_is_the_same() -> None:
    assert similarity(FULL, replace(FULL, app="renamed", model="")) == 1.0


def test_the_less_is_shared_the_less_alike() -> None:
    steps = [
        FULL,
        replace(FULL, config=""),
        replace(FULL, config="c2"),
        replace(FULL, script="s2"),
        replace(FULL, script="s2", model="m2"),
        replace(FULL, script="s2", model="m2", app="gpt"),
    ]
    values = [similarity(FULL, step) for step in steps]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == len(values)
    assert values[-1] == 0.0


@pytest.mark.parametrize("field", ["batch", "data_size", "workers"])
def test_a_figure_further_away_counts_less_and_an_unknown_one_nothing(field: str) -> None:
    value = getattr(FULL, field)
    near, far = (similarity(FULL, replace(FULL, **{field: value * factor})) for factor in (2, 16))
    assert 1.0 > near > far > 0.0
    assert similarity(FULL, replace(FULL, **{field: 0})) == 1.0


def test_without_scripts_the_name_has_to_do() -> None:
    assert 0.5 < similarity(Signature("bert"), Signature("bert")) < 1.0
    assert similarity(Signature("bert"), Signature("gpt")) == 0.0
    assert similarity(Signature(), Signature()) == 0.0


@given(signatures, signatures)
def test_likeness_is_symmetric_and_a_fraction(one: Signature, other: Signature) -> None:
    assert 0.0 <= similarity(one, other) <= 1.0
    assert similarity(one, other) == similarity(other, one)
    if not set(one.keys) & set(other.keys):
        assert similarity(one, other) == 0.0


def test_a_figure_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match=r"0 \(not known\) or more"):
        Signature(batch=-1)
