"""Calibration measures real networks in processes of their own, and its profile survives being a file."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
import torch

from elastane.errors import ElastaneError
from elastane.predict import Machine, capture, estimate_step, load_profile
from elastane.predict.calibration.calibrate import calibrate
from elastane.predict.calibration.measuring_process import in_child
from elastane.predict.calibration.networks import network
from elastane.predict.calibration.timing import Bench, clock
from elastane.predict.costs.contract import Basis
from elastane.predict.operators import Kind
from elastane.predict.profile import Profile


@pytest.fixture(scope="module")
def profile() -> Profile:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    state = torch.get_rng_state()
    made = calibrate(2.0)
    assert torch.equal(state, torch.get_rng_state())
    torch.set_num_threads(before)
    return made


def test_a_short_calibration_finds_many_operators(profile: Profile) -> None:
    assert len(profile.measured) > 20
    assert all(each.seconds >= 0 for each in profile.measured)
    assert profile.device.peak("fp32") > 1e8
    assert {Kind.CONVOLUTION, Kind.CONVOLUTION_BACKWARD} <= {each.kind for each in profile.measured}


def test_a_profile_is_the_same_after_reading(profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "local.json"
    profile.save(path)
    again = load_profile(path)
    assert again == profile
    job = network(0, 0)[0]
    steps = [estimate_step(capture(job, 8), Machine.local(each)) for each in (profile, again)]
    assert steps[0].seconds == steps[1].seconds
    assert steps[0].basis is Basis.CALIBRATED
    assert "calibrated" in steps[0].machine.about


@pytest.mark.parametrize("text", ["", "{}", '{"version": 1}', '{"version": 99}', "[]"])
def test_a_damaged_profile_is_refused_with_the_way_out(tmp_path: Path, text: str) -> None:
    path = tmp_path / "local.json"
    with pytest.raises(ElastaneError, match="elastane predict calibrate"):
        load_profile(path)
    path.write_text(text)
    with pytest.raises(ElastaneError, match="profile"):
        load_profile(path)


def test_a_network_of_a_number_is_always_the_same() -> None:
    for index in range(7):
        (one, batch), (other, same) = network(3, index), network(3, index)
        assert batch == same
        assert str(one.model) == str(other.model)


@pytest.mark.parametrize("seed", range(12))
def test_every_network_that_is_drawn_can_be_trained(seed: int) -> None:
    for index in (*range(7), *range(7, 84, 7)):  # all families once, and plain ones, which pool, more often
        with torch.device("meta"):
            job, _ = network(seed, index)
            job.loss_fn(job.model, job.batch_fn(2)).backward()


@pytest.mark.parametrize("index", range(7))
def test_measured_operators_are_those_that_a_capture_predicts(index: int) -> None:
    job, _ = network(1, index)
    bench = Bench(job, 2, clock())
    bench.measure(1)
    measured, captured = bench.result(), capture(job, 2)
    names = [Counter(each.name for each in found.operators) for found in (measured, captured)]
    # A copy more or less: tensors without data are laid out otherwise in a few places.
    assert ((names[0] - names[1]) + (names[1] - names[0])).total() <= 0.05 * names[0].total()
    assert sum(each.flops for each in measured.operators) == pytest.approx(captured.flops(), rel=0.01)
    assert sum(each.bytes for each in measured.operators) == pytest.approx(captured.bytes(), rel=0.05)
    assert measured.calls == pytest.approx(captured.calls, rel=0.15)


def test_a_child_answers_fails_or_dies_without_harm() -> None:
    assert in_child(lambda: {"pid": os.getpid()})["pid"] != os.getpid()
    with pytest.raises(ElastaneError, match="ZeroDivisionError"):
        in_child(lambda: 1 / 0)
    with pytest.raises(ElastaneError, match="died"):
        in_child(lambda: os._exit(3))
    assert json.dumps(in_child(lambda: [1, 2]))
