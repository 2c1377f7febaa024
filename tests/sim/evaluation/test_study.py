"""From outcomes to findings, with made-up outcomes; and a small evaluation that really runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elastane.errors import ElastaneError
from elastane.sim.evaluation.ablations import ERRORS, OURS, RESTARTS_S, THEIRS, ablate
from elastane.sim.evaluation.document import document
from elastane.sim.evaluation.findings import findings
from elastane.sim.evaluation.layout import block, ranked
from elastane.sim.evaluation.outcomes import MEAN_JCT, MEASURES, Outcome
from elastane.sim.evaluation.page import page
from elastane.sim.evaluation.protocol import Cell, Protocol, cells
from elastane.sim.evaluation.statistics import Verdict
from elastane.sim.evaluation.study import Study, evaluate, in_processes
from elastane.sim.evaluation.summary import sentences
from elastane.sim.workloads.trace import Omission

LIGHT, HEAVY = Cell("philly", "light", 0.5), Cell("philly", "heavy", 1.1)


def outcomes(*means: float | None, oracle: bool = False) -> tuple[Outcome, ...]:
    """Runs in which every figure but the mean is the same for everybody."""
    return tuple(
        Outcome(
            oracle,
            jobs=10,
            unfinished=0 if mean else 3,
            figures={**dict.fromkeys((m.name for m in MEASURES), 1.0 if mean else None), "mean_jct_s": mean},
            notes=(),
        )
        for mean in means
    )


@pytest.fixture
def study() -> Study:
    protocol = Protocol(("elastane", "pollux", "fifo", "srtf"), (LIGHT, HEAVY), (0, 1, 2))
    return Study(
        protocol,
        {
            (LIGHT, "elastane"): outcomes(100.0, 110.0, 120.0),
            (LIGHT, "pollux"): outcomes(90.0, 99.0, 108.0),  # a tenth less on every seed
            (LIGHT, "fifo"): outcomes(50.0, 50.0, None),  # left jobs behind
            (LIGHT, "srtf"): outcomes(10.0, 11.0, 12.0, oracle=True),
            (HEAVY, "elastane"): outcomes(100.0, 110.0, 120.0),
            (HEAVY, "pollux"): outcomes(200.0, 108.0, 118.0),
            (HEAVY, "fifo"): outcomes(99.0, 111.0, 119.0),  # less on average, not on every seed
            (HEAVY, "srtf"): outcomes(10.0, 11.0, 12.0, oracle=True),
        },
    )


def test_who_beats_the_reference_is_named_with_how_sure_that_is(study: Study) -> None:
    light, heavy = findings(study)
    assert (light.cell, light.policy, light.measure) == (LIGHT, "pollux", MEAN_JCT)
    assert light.difference.value == pytest.approx(-0.1)
    assert light.verdict is Verdict.BETTER
    assert (heavy.cell, heavy.policy, heavy.verdict) == (HEAVY, "fifo", Verdict.UNSURE)
    told = sentences(study)
    assert told[0].startswith(
        "mean JCT: elastane is not best in 2 of 2 cells (95 % sure that it is in 0). philly light: pollux -10.0 % ["
    )
    assert any("srtf, which reads the truth" in line for line in told)


def test_oracles_and_those_who_leave_jobs_behind_are_not_ranked(study: Study) -> None:
    assert ranked(study, LIGHT) == ["pollux", "elastane", "fifo"]  # without a figure: last
    shown = block(study, LIGHT)
    assert [line.policy for line in shown.oracles] == ["srtf"]
    assert shown.ranked[-1].entries[0].mean == "–"
    assert "philly light: fifo left 3 jobs unfinished and is not ranked there" in study.notes()


def test_notes_on_jobs_left_out_are_told_by_their_type_not_by_their_words(study: Study) -> None:
    notes = ("nothing was left out", Omission("jobs too wide: 2"))
    [first, *others] = study.outcomes[LIGHT, "pollux"]
    told = {**study.outcomes, (LIGHT, "pollux"): (replace(first, notes=notes), *others)}
    assert [note for note in Study(study.protocol, told).notes() if "unfinished" not in note] == [
        "philly light: jobs too wide: 2"
    ]


def test_page_and_document_hold_everything(study: Study) -> None:
    text = page(study, ())
    for word in ("<svg", "philly light", "srtf", "cannot tell", "left 3 jobs unfinished"):
        assert word in text
    assert "<script" not in text
    assert document(study, ())["not_best"][0]["difference"]["verdict"] == "better"  # type: ignore[index]


@pytest.mark.parametrize(
    ("workloads", "loads", "said"),
    [
        ("philip", "light", "--workloads: no workload 'philip'"),
        ("philly", "huge", "--loads takes light, medium, heavy or numbers above 0, not 'huge'"),
        ("philly", "-1", "--loads takes"),
        ("philly,philly", "1", "--workloads needs one or more different"),
        ("", "1", "--workloads needs one or more"),
    ],
)
def test_mistakes_name_their_option(workloads: str, loads: str, said: str) -> None:
    with pytest.raises(ElastaneError, match=said):
        cells(workloads, loads)


def test_a_cluster_too_small_for_tuned_jobs_and_a_missing_reference_are_refused() -> None:
    with pytest.raises(ElastaneError, match="--workloads pollux has jobs of 48 GPUs"):
        Protocol(("elastane",), cells("pollux", "1"), (0,), cluster="8x4:t4")
    with pytest.raises(ElastaneError, match="--reference elastane is not among"):
        Protocol(("fifo",), (LIGHT,), (0,))


def small(*policies: str) -> Protocol:
    return Protocol(policies, cells("itp", "0.5"), (0, 1), cluster="2x2:t4", days=0.06, interval_s=60.0)


def test_an_evaluation_repeats_itself_to_the_byte() -> None:
    protocol = small("elastane", "fifo", "srtf")
    first, second = (document(evaluate(protocol, in_processes(1, False)), ()) for _ in range(2))
    assert first == second


@pytest.mark.slow
def test_ablations_hold_each_policy_against_itself_and_against_pollux() -> None:
    found = ablate(small("elastane"), in_processes(1, False))
    told = {(each.variant.policy, each.variant.name): each for each in found}
    for seconds in RESTARTS_S:
        assert (THEIRS, f"restart {seconds:g} s") in told
    for fraction in ERRORS:
        assert (OURS, f"error {fraction:.0%}") in told
    unchanged = told[OURS, "error 0%"]
    assert unchanged.against_itself is not None
    assert unchanged.against_itself.value == 0.0
    slower = told[OURS, "restart 120 s"].against_itself
    assert slower is not None
    assert slower.value > 0.0
    assert told[THEIRS, "as it is"].against_pollux is None
