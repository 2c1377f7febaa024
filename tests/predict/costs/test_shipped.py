"""The shipped fits: small, sourced, better than the roofline in what they say, and honest about distance."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pytest

from elastane.predict.costs.shipped import KNOWN_SD, PROBED_SD, Shipped, shipped_fits
from elastane.predict.costs.simple import Roofline
from elastane.predict.devices import catalog, find
from elastane.predict.operators import Kind, Operator, Phase


def convolution(n: int, c_in: int, c_out: int, size: int, kernel: int = 3, groups: int = 1) -> Operator:
    flops = 2.0 * n * size * size * kernel * kernel * c_in * c_out / groups
    words = n * size * size * (c_in + c_out) + kernel * kernel * c_in * c_out // groups
    dims = (n, c_in, c_out, size * size, size * size, kernel * kernel, 1, groups)
    return Operator("aten::convolution", Kind.CONVOLUTION, Phase.FORWARD, flops, 4.0 * words, dims)


def product(m: int, n: int, k: int, phase: Phase = Phase.FORWARD) -> Operator:
    return Operator(
        "aten::mm", Kind.MATMUL, phase, 2.0 * m * n * k, 4.0 * (m * k + k * n + m * n), (1, m, n, k)
    )


def other(size: int = 10**6) -> Operator:
    return Operator("aten::add", Kind.ELEMENTWISE, Phase.FORWARD, float(size), 12.0 * size, (size, 2 * size, 1))


def test_the_file_is_small_and_says_whose_timings_it_was_fitted_to() -> None:
    fits = shipped_fits()
    assert len(files("elastane.predict").joinpath("data/fits.json").read_bytes()) < 1_000_000
    assert "Justus" in fits.source
    assert "NeuSight" in fits.source
    assert set(fits.by_kind) == {Kind.CONVOLUTION, Kind.CONVOLUTION_BACKWARD, Kind.MATMUL}
    assert all(fit.rows > 1000 and len(fit.offsets) == 5 for fit in fits.by_kind.values())


@pytest.mark.parametrize("device", catalog(), ids=lambda each: each.name)
def test_large_layers_run_at_a_credible_part_of_the_peak(device: object) -> None:
    card = find(device.name)  # type: ignore[attr-defined]
    operators = [convolution(32, 128, 128, 28), product(2048, 2048, 2048)]
    seconds = Shipped(shipped_fits()).times(operators, card).seconds
    reached = [each.flops / s / card.peak("fp32") for each, s in zip(operators, seconds, strict=True)]
    assert all(0.15 < part < 2.0 for part in reached)  # Winograd may pass the direct peak


def test_doubt_is_least_for_known_cards_more_for_others_and_most_without_fits() -> None:
    model, one = Shipped(shipped_fits()), [product(1024, 1024, 1024)]
    known, unseen = (model.times(one, find(name)).shared_sd for name in ("t4", "h100"))
    conv = model.times([convolution(32, 128, 128, 28)], find("h100")).shared_sd
    assert known == KNOWN_SD <= unseen
    assert conv > KNOWN_SD
    assert model.times([other()], find("t4")).shared_sd == Roofline().times([other()], find("t4")).shared_sd
    assert model.times(one, find("a100-40g"), "bf16").shared_sd > model.times(one, find("a100-40g")).shared_sd
    assert Shipped(shipped_fits(), {Kind.MATMUL: 1.0}).times(one, find("h100")).shared_sd == pytest.approx(
        PROBED_SD
    )


def test_what_no_card_was_measured_at_is_far_away_and_widened() -> None:
    model = Shipped(shipped_fits())
    usual, depthwise = convolution(32, 64, 64, 28), convolution(32, 256, 256, 28, groups=256)
    times = model.times([usual, depthwise], find("p100"))
    assert times.distance[1] > 1.5 * times.distance[0]
    assert times.log_sd[1] > times.log_sd[0]


def test_factors_of_probes_multiply_and_backward_products_are_products() -> None:
    plain, probed = Shipped(shipped_fits()), Shipped(shipped_fits(), {Kind.MATMUL: 2.0})
    operators = [product(512, 512, 512), product(512, 512, 512, Phase.BACKWARD), convolution(8, 64, 64, 28)]
    one, other_ = (model.times(operators, find("v100")).seconds for model in (plain, probed))
    assert np.allclose(other_ / one, [2.0, 2.0, 1.0])
    assert one[0] == one[1]
