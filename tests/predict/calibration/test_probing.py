"""A probe finds the factor by which a machine differs, and predictions take it up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from elastane.errors import ElastaneError
from elastane.predict import Machine, capture, estimate_step, find
from elastane.predict.calibration.probing import probe, this_card
from elastane.predict.calibration.refit import probe_card
from elastane.predict.costs.contract import Timing, roofline_s
from elastane.predict.costs.simple import Roofline
from elastane.predict.devices import Device
from elastane.predict.operators import Kind, Operator, Phase
from elastane.predict.probes import factors_of, load_probes
from predict.models import image_job

BOX = Device("box", 8.0, 20.0, {"fp32": 0.1}, 2.0, "made up for tests", "2026-01-01")


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Children of a process that computed with several threads cannot compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def product(size: int) -> Operator:
    return Operator(
        "aten::mm", Kind.MATMUL, Phase.FORWARD, 2.0 * size**3, 12.0 * size**2, (1, size, size, size)
    )


def test_factors_are_medians_that_count_long_operators_more() -> None:
    model = Roofline(usual=1.0)

    def taking(size: int, factor: float) -> Timing:
        return Timing(product(size), BOX, factor * float(roofline_s([product(size)], BOX)[0]))

    rows = [taking(1024, 3.0), *(taking(16, 1.0) for _ in range(9))]
    assert factors_of(model, rows)[Kind.MATMUL] == pytest.approx(3.0)


def test_layers_of_this_machine_are_timed_with_all_their_operators() -> None:
    heard: list[float] = []
    timings = probe(BOX, 2, lambda done, _: heard.append(done))
    kinds = {each.operator.kind for each in timings}
    assert {Kind.CONVOLUTION, Kind.CONVOLUTION_BACKWARD, Kind.MATMUL, Kind.NORM, Kind.ELEMENTWISE} <= kinds
    assert all(each.seconds > 0 for each in timings)
    assert heard == [0.0, 0.5]


def test_a_probed_card_is_predicted_otherwise_than_before(tmp_path: Path) -> None:
    path = tmp_path / "box.json"
    assert load_probes(path) is None
    factors = probe_card(BOX, path, 1, lambda _done, _what: None)
    probes = load_probes(path)
    assert probes is not None
    assert probes.factors == factors
    captured = capture(image_job, 8)
    before, after = (estimate_step(captured, Machine.from_catalog(BOX, each)) for each in (None, probes))
    assert after.seconds.middle != before.seconds.middle
    assert "probed" in after.machine.about
    doubled = replace(probes, factors={name: 2.0 * each for name, each in factors.items()})
    twice = estimate_step(captured, Machine.from_catalog(BOX, doubled))
    assert twice.seconds.middle == pytest.approx(2.0 * after.seconds.middle, rel=0.2)


def test_a_card_that_is_not_here_cannot_be_probed() -> None:
    if this_card() is None:
        with pytest.raises(ElastaneError, match="no accelerator"):
            probe(find("t4"), 1)


@pytest.mark.parametrize("text", ["", "{}", '{"version": 7}'])
def test_damaged_probes_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ElastaneError, match="predict probe"):
        load_probes(tmp_path / "x.json")
