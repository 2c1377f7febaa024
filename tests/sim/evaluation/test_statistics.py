"""Paired intervals against values computed by hand."""

from __future__ import annotations

import math

import pytest

from elastane.sim.evaluation.statistics import Difference, Verdict, paired


def test_plain_differences_have_a_student_interval() -> None:
    # Differences 1, 2, 3: mean 2, deviation 1, t(2, 97.5 %) = 4.3027, half-width 4.3027 / √3 = 2.4841.
    found = paired([2.0, 4.0, 6.0], [1.0, 2.0, 3.0], relative=False)
    assert found is not None
    assert found.value == pytest.approx(2.0)
    assert found.low == pytest.approx(2.0 - 2.4841, abs=1e-4)
    assert found.high == pytest.approx(2.0 + 2.4841, abs=1e-4)
    assert found.verdict(lower_is_better=True) is Verdict.UNSURE


def test_ratios_are_averaged_as_logarithms() -> None:
    # Twice and half cancel: logarithms ±ln 2, deviation √2 ln 2, t(1, 97.5 %) = 12.7062, half-width 12.7062 ln 2.
    found = paired([2.0, 1.0], [1.0, 2.0], relative=True)
    assert found is not None
    assert found.value == pytest.approx(0.0, abs=1e-12)
    assert found.high == pytest.approx(math.expm1(12.7062 * math.log(2.0)), rel=1e-3)
    assert found.low == pytest.approx(math.expm1(-12.7062 * math.log(2.0)), rel=1e-6)


def test_the_same_ratio_everywhere_is_certain() -> None:
    found = paired([1.1, 2.2, 3.3], [1.0, 2.0, 3.0], relative=True)
    assert found is not None
    assert found.value == pytest.approx(0.1)
    assert found.verdict(lower_is_better=True) is Verdict.WORSE
    assert found.verdict(lower_is_better=False) is Verdict.BETTER


def test_one_seed_tells_nothing_and_equal_figures_are_the_same() -> None:
    alone = paired([1.0], [2.0], relative=True)
    assert alone == Difference(pytest.approx(-0.5), None, None, True)
    assert alone.verdict(lower_is_better=True) is Verdict.UNSURE
    same = paired([0.0, 0.0], [0.0, 0.0], relative=False)
    assert same is not None
    assert same.verdict(lower_is_better=True) is Verdict.SAME


def test_a_missing_figure_or_a_ratio_to_nothing_compares_with_nobody() -> None:
    assert paired([1.0, None], [1.0, 2.0], relative=False) is None
    assert paired([1.0, 0.0], [1.0, 2.0], relative=True) is None
