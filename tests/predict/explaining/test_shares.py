"""Shares add up to the step by any grouping, predicted and measured, and nothing is hidden."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from elastane.predict import Machine, capture, estimate_step, find
from elastane.predict.explaining import By, shares_of, similarity
from elastane.predict.explaining.measuring import measured_step
from elastane.predict.explaining.tables import shares_json
from elastane.predict.pages import write_explained
from elastane.predict.steps import StepEstimate
from predict.models import image_job, lstm_job, mlp_job


def step(job: object = image_job, batch: int = 32) -> StepEstimate:
    return estimate_step(capture(job, batch), Machine.from_catalog(find("t4")))  # type: ignore[arg-type]


@pytest.mark.parametrize("by", By)
def test_shares_add_up_and_end_at_everything(by: By) -> None:
    estimate = step()
    shares = shares_of(estimate, by)
    assert shares.seconds == pytest.approx(estimate.seconds.middle)
    assert shares.rows[-1].cumulative == pytest.approx(1.0)
    assert [each.seconds for each in shares.rows] == sorted(
        (each.seconds for each in shares.rows), reverse=True
    )
    for each in shares.rows:
        assert each.seconds > 0
        assert sum(each.phases.values()) == pytest.approx(each.seconds)
    assert sum(each.calls for each in shares.rows) == len(estimate.operators)
    assert 1 <= shares.needed(0.5) <= shares.needed(0.9) <= len(shares.rows)


def test_layers_join_what_lies_in_them() -> None:
    names = {each.name for each in shares_of(step(), By.LAYER).rows}
    assert {"first", "norm", "second", "head", "(optimizer)"} <= names


def test_measured_shares_add_up_to_a_real_step_and_touch_nothing() -> None:
    job = image_job()
    before = {name: each.clone() for name, each in job.model.state_dict().items()}
    measured = measured_step(lambda: job, 4, passes=2)
    assert all(torch.equal(each, before[name]) for name, each in job.model.state_dict().items())
    assert all(parameter.grad is None for parameter in job.model.parameters())
    shares = shares_of(step(batch=4), By.MODULE, measured)
    assert shares.measured_s == pytest.approx(sum(seconds for _, seconds in measured))
    assert sum(each.measured_s or 0.0 for each in shares.rows) == pytest.approx(shares.measured_s)
    assert any(each.measured_s for each in shares.rows if each.name == "first")
    off = [abs(each.off_s) for each in shares.worst_first()]
    assert off == sorted(off, reverse=True)


def test_networks_of_a_kind_are_more_alike_than_others() -> None:
    wide, narrow, recurrent = (
        {each.name: each.seconds for each in shares_of(step(job), By.OPERATOR).rows}
        for job in (lambda: mlp_job(width=128), mlp_job, lstm_job)
    )
    assert similarity(wide, wide) == pytest.approx(1.0)
    assert similarity(wide, narrow) > similarity(wide, recurrent)
    assert similarity(wide, {}) == 0.0


def test_the_page_needs_no_network_and_cannot_be_broken_out_of(tmp_path: Path) -> None:
    estimate = step()
    path = tmp_path / "deep" / "page.html"
    write_explained(path, "</script><b>x", estimate, [shares_of(estimate, by) for by in By])
    text = path.read_text(encoding="utf-8")
    assert "<b>x" not in text
    assert "&lt;/script&gt;" in text
    assert "src=" not in text.partition("<script>")[0]
    assert all(f'id="by-{by.value}"' in text for by in By)
    assert shares_json(estimate, shares_of(estimate, By.KIND))["unmodelled_s"] == 0.0
