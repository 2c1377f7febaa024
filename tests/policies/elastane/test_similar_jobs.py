"""What jobs of one kind tell each other."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from elastane.models.estimate import Estimate, Provenance
from elastane.models.goodput import BatchLimits, GoodputModel
from elastane.models.throughput import ThroughputParams
from elastane.policies.elastane import Elastane
from elastane.policies.elastane.similar_jobs import _CACHE, SimilarJobs
from elastane.policies.view import Facts, JobView, Request, View
from elastane.testing.policies.variants import through_json
from helpers.pollux_views import view

SEEN = Elastane.needs.info
LIMITS = BatchLimits(64, 16384, 16, 4096)
HOPEFUL = ThroughputParams(0.05, 0.001, 1e-8, 1e-8, 1e-8, 1e-8, 1.0)
"""Of a job that has never met the network, nor a second GPU."""
SOBER = ThroughputParams(0.06, 0.001, 0.4, 0.01, 0.02, 0.002, 1.5)


def model(
    theta: ThroughputParams[float], seen: int, widest: int = 64, limits: BatchLimits = LIMITS
) -> GoodputModel:
    return GoodputModel({"": theta}, 1e4, limits, seen, widest=widest)


def made(name: str, speed: GoodputModel | None) -> JobView:
    facts = Facts(speed=speed, remaining=Estimate(1e6, source=Provenance.DECLARED))
    return JobView(name, 0.0, Request(workers=1, max_workers=64), restart_s=30.0, facts=facts, visible=SEEN)


def seen(*jobs: JobView) -> View:
    return replace(view(jobs, [4, 4, 4, 4]), visible=SEEN)


def told(young: GoodputModel, *others: GoodputModel) -> GoodputModel:
    now = seen(made("young", young), *(made(f"old{i}", other) for i, other in enumerate(others)))
    found = SimilarJobs().with_jobs(now).completed(now).jobs["young"].speed
    assert isinstance(found, GoodputModel)
    return found


def test_the_network_one_has_met_all_know() -> None:
    found = told(model(HOPEFUL, 1), model(SOBER, 16))
    theta = found.params[""]
    assert theta[2:] == SOBER[2:]
    assert theta[:2] == HOPEFUL[:2], "how fast it computes it knows itself"
    assert found.max_profiled == 16


def test_what_a_job_has_seen_itself_it_believes() -> None:
    own = model(HOPEFUL._replace(alpha_r=0.03, beta_r=0.001, gamma=1.2), 4)
    found = told(own, model(SOBER, 16))
    assert found.params[""].alpha_n == SOBER.alpha_n
    assert [found.best_of(1, k)[0] for k in (1, 2, 4)] == [own.best_of(1, k)[0] for k in (1, 2, 4)]
    wide = model(HOPEFUL, 8)
    assert told(wide, model(SOBER, 16)) is wide


def test_large_batches_are_known_from_others_too() -> None:
    narrow = HOPEFUL._replace(alpha_c=0.114, beta_c=1e-8)
    wide = HOPEFUL._replace(alpha_c=0.05, beta_c=0.0005)
    found = told(model(narrow, 1, widest=64), model(wide, 1, widest=4096))
    factor = 0.114 / (0.05 + 0.0005 * 64)
    assert found.params[""].beta_c == pytest.approx(0.0005 * factor, rel=1e-3)
    assert found.widest == 4096


@pytest.mark.parametrize(
    "other",
    [
        model(SOBER, 16, limits=replace(LIMITS, initial=32)),
        model(SOBER._replace(alpha_c=1.0), 16, widest=4096),
        model(SOBER, 1),
    ],
    ids=["other batches", "other passes", "knows no more"],
)
def test_strangers_are_not_believed(other: GoodputModel) -> None:
    young = model(HOPEFUL, 1)
    assert told(young, other) is young


def test_tenants_do_not_learn_from_each_other() -> None:
    young = made("young", model(HOPEFUL, 1))
    now = seen(young, replace(made("old", model(SOBER, 16)), tenant="other"))
    assert SimilarJobs().with_jobs(now).completed(now).jobs["young"].speed is young.speed


def test_it_outlives_the_witness_and_travels_as_json() -> None:
    kin = SimilarJobs().with_jobs(seen(made("old", model(SOBER, 16))))
    again = SimilarJobs.of(through_json(kin.memory()))
    assert again == kin
    now = seen(made("young", model(HOPEFUL, 1)), made("new", None))
    found = again.with_jobs(now).completed(now).jobs
    assert isinstance(found["young"].speed, GoodputModel)
    assert found["young"].speed.max_profiled == 16
    assert found["new"].speed is None
    assert SimilarJobs.of(None) == SimilarJobs()


def test_a_witness_is_replaced_by_one_who_knows_more_and_kept_against_one_who_knows_as_much() -> None:
    first = SimilarJobs().with_jobs(seen(made("b", model(SOBER, 8))))
    (kind,) = first.wide
    same = first.with_jobs(seen(made("a", model(HOPEFUL, 8))))
    assert same.wide[kind].job == "b"
    assert same.with_jobs(seen(made("c", model(HOPEFUL, 12)))).wide[kind].job == "c"


def test_kinds_are_forgotten_at_last() -> None:
    kin = SimilarJobs()
    for number in range(300):
        limits = replace(LIMITS, initial=100 + number)
        kin = kin.with_jobs(seen(made("old", model(SOBER, 8, limits=limits))))
    assert len(kin.wide) == len(kin.large) == 256
    assert any(", 399, " in kind for kind in kin.wide)


def test_models_are_forgotten_with_their_jobs() -> None:
    _CACHE.clear()
    for number in range(20):
        told(model(HOPEFUL, 1, widest=64 + number), model(SOBER._replace(alpha_c=9.0), 16))
        told(model(HOPEFUL, 1, widest=64 + number), model(SOBER, 16))
    gc.collect()
    assert len(_CACHE) == 0


def test_nodes_of_another_size_are_another_lesson() -> None:
    """With eight GPUs on a node, a job that has had eight has not met the network."""
    young, old = made("young", model(HOPEFUL, 8)), made("old", model(SOBER, 16))
    for nodes, alpha_n in (
        ([4, 4, 4, 4], HOPEFUL.alpha_n),
        ([8, 8], SOBER.alpha_n),
        ([4, 4, 4, 4], HOPEFUL.alpha_n),
    ):
        now = replace(view([young, old], nodes), visible=SEEN)
        found = SimilarJobs().with_jobs(now).completed(now).jobs["young"].speed
        assert isinstance(found, GoodputModel)
        assert found.params[""].alpha_n == alpha_n
