"""Parameter-server jobs as ground truth: the paper's figures, placement, loss, and what can be learned of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.cluster import Cluster, Grant, Node
from elastane.errors import ElastaneError
from elastane.models.convergence import converged
from elastane.models.estimate import Provenance
from elastane.models.parameter_server import SpeedSample, Updates
from elastane.models.placement import Layout, even_layouts
from elastane.models.ps_learner import ServerLearner, ServerTraining
from elastane.models.speed import ServerSpeedModel
from elastane.models.stopping import StopRule
from elastane.policies.contract import Policy
from elastane.policies.optimus import Optimus, OptimusOracle
from elastane.policies.view import Request
from elastane.resources import Resources
from elastane.sim.truth.even_transfer import even_transfer
from elastane.sim.truth.parameter_server import ServerJob, ServerKind, TrueServerSpeed, layout_of
from elastane.sim.truth.server_kinds import KINDS, PreRuns, server_arrival
from elastane.simcore.job_run import Arrival
from elastane.simcore.physics import Physics
from elastane.simcore.world import Outage, World

MACHINE = Resources(cpus=8.0)
REQUEST = Request(max_workers=8, worker=Resources(cpus=1.0), server=Resources(cpus=1.0), max_servers=8)


def cluster(machines: int = 6) -> Cluster:
    return Cluster.of(Node(f"n{i}", 0, cpus=8.0) for i in range(machines))


# ---- speed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "step_s"),
    [
        ("resnet50-sync", 1.02 * 32 / 4 + 2.78 + 4.92 * 4 / 2 + 0.02 * 2),
        ("resnet50-async", (2.83 + 3.92 * 4 / 2 + 0.11 * 2) / 4),
    ],
)
def test_servers_away_from_all_workers_give_the_published_speed(name: str, step_s: float) -> None:
    apart = Layout((2, 0), (0, 4))
    assert ServerJob(KINDS[name]).rate_on(apart) == pytest.approx(1.0 / step_s)


def test_the_published_example_layout_is_faster_than_others() -> None:
    job = ServerJob(KINDS["resnet50-sync"])
    best = job.rate_on(Layout((1, 1, 0), (2, 2, 0)))
    assert best > job.rate_on(Layout((2, 0, 0), (1, 3, 0)))
    assert best > job.rate_on(Layout((1, 1, 0), (1, 1, 2)))
    assert job.rate_on(Layout((2,), (4,))) > best  # one machine, if it had room: nothing on the wire


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 6))
def test_closed_form_of_even_layouts(servers: int, workers: int, nodes: int) -> None:
    found = even_transfer(np.array([nodes]), np.array([servers]), np.array([workers]))
    assert found[0] == pytest.approx(even_layouts(servers, workers, nodes)[0].transfer_s(1.0))


def test_the_oracle_is_exact_on_even_layouts() -> None:
    job = ServerJob(KINDS["resnet50-async"], epochs=10)
    left, speed = job.oracle(100.0, None)
    assert isinstance(speed, ServerSpeedModel)
    assert left.mean == job.total_work - 100.0
    assert left.source is speed.source is Provenance.ORACLE
    grant = Grant.of([("a", 2), ("b", 2)], [("a", 1), ("b", 1)])
    asked = (np.array([n]) for n in (2, 2, 4))
    assert speed.server_rates(*asked)[0] == pytest.approx(job.pace(grant, "", None, 0.0).rate)
    assert speed.server_rates(np.array([1]), np.array([0]), np.array([1]))[0] == 0.0


def test_a_grant_without_servers_lets_every_worker_serve() -> None:
    assert layout_of(Grant.of([("a", 2), ("b", 1)])) == Layout((2, 1), (2, 1))


def test_a_kind_needs_all_its_coefficients() -> None:
    with pytest.raises(ElastaneError, match="needs 5 coefficients"):
        ServerKind("x", Updates.SYNC, (1.0, 2.0), 8, 10, (0.1, 1.0, 0.0))


# ---- loss -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.002, 0.005])
@pytest.mark.parametrize("name", sorted(KINDS))
def test_a_job_ends_in_the_first_epoch_that_looks_converged(name: str, noise: float) -> None:
    job = ServerJob(KINDS[name], loss_noise=noise, seed=3)
    end = job.last_epoch
    epochs = [float(k) for k in range(1, end + 1)]
    assert end < job.most_epochs
    assert converged(epochs, list(job.losses[:end]), job.kind.delta)
    assert not converged(epochs[:-1], list(job.losses[: end - 1]), job.kind.delta)


def test_published_loss_curve_is_flat_from_the_published_epoch() -> None:
    # β = (0.21, 1.07, 0.07): decrease per epoch at most 1 % from k = 17 on, as a share of the first loss l(0) = 1.
    # The job sees its first loss after epoch 1 and takes shares of that, so it ends a little later than 17 + 3.
    job = ServerJob(KINDS["seq2seq-sync"])
    assert 19 <= job.last_epoch <= 23


def test_declared_epochs_are_kept_and_noise_is_drawn_once() -> None:
    kind = KINDS["rnn-async"]
    assert ServerJob(kind, epochs=7).total_work == 7 * kind.steps_per_epoch
    one, same, other = (ServerJob(kind, loss_noise=0.01, seed=seed) for seed in (1, 1, 2))
    assert (one.losses == same.losses).all()
    assert not (one.losses == other.losses).all()
    assert one.loss(0.5 * kind.steps_per_epoch) is None
    assert one.loss(2 * kind.steps_per_epoch) == one.losses[1]


# ---- learning ---------------------------------------------------------------------------------------------


def test_the_end_is_forecast_from_a_good_part_of_the_curve() -> None:
    job = ServerJob(KINDS["seq2seq-sync"], loss_noise=0.002, seed=1)
    steps = job.kind.steps_per_epoch
    seen = [((k + 1) * steps, float(loss)) for k, loss in enumerate(job.losses)]
    assert job.kind.stop.expected_end(seen[:3]) is None
    end = job.kind.stop.expected_end(seen[:14])
    assert end is not None
    assert end.mean == pytest.approx(job.total_work, rel=0.2)  # the paper's early error


def test_a_loss_that_rises_has_no_forecast() -> None:
    assert StopRule(1.0).expected_end([(k, 1.0 + 0.1 * k) for k in range(1, 20)]) is None
    assert StopRule(1.0).expected_end([]) is None


@pytest.mark.parametrize("name", ["resnet50-sync", "resnet50-async"])
def test_five_pre_runs_predict_even_layouts(name: str) -> None:
    job = ServerJob(KINDS[name])
    samples = PreRuns(noise=0.0).measure(job, REQUEST, MACHINE, 6)
    assert len({(s.servers, s.workers) for s in samples}) == 5
    learner = ServerLearner(ServerTraining(job.kind.updates, job.kind.batch, samples), 8, 8)
    model, truth = learner.model(), TrueServerSpeed(job.kind)
    assert model is not None
    assert isinstance(model, ServerSpeedModel)
    p, w = (grid.ravel() for grid in np.mgrid[1:9, 1:9])
    nodes = np.maximum(-(-(p + w) // 8), 1)
    errors = np.abs(model.server_rates(nodes, p, w) / truth.server_rates(nodes, p, w) - 1.0)
    assert errors.mean() < 0.15


def test_a_learner_with_too_few_pairs_knows_only_what_it_saw() -> None:
    training = ServerTraining(Updates.ASYNC, 16.0, (SpeedSample(1, 1, 0.5),))
    learner = ServerLearner(training, 4, 4)
    learner.observe(1, 1, 0.7)
    model = learner.model()
    assert model is not None
    one, two = np.array([1]), np.array([2])
    assert model.rates(one, one)[0] == pytest.approx(0.6)
    assert model.server_rates(one, two, two)[0] == 0.0
    assert learner.refit() == 0


def test_pre_runs_keep_to_what_the_machines_hold() -> None:
    samples = PreRuns().measure(ServerJob(KINDS["rnn-async"]), REQUEST, MACHINE, 1)
    assert all(s.servers + s.workers <= 8 for s in samples)
    assert PreRuns(count=0).measure(ServerJob(KINDS["rnn-async"]), REQUEST, MACHINE, 1) == ()


# ---- through the world ------------------------------------------------------------------------------------


def workload(jobs: int = 10, seed: int = 0, declared: bool = False) -> list[Arrival]:
    rng = np.random.default_rng(seed)
    names = sorted(KINDS)
    out = []
    for i in range(jobs):
        kind = KINDS[names[int(rng.integers(len(names)))]]
        job = ServerJob(kind, epochs=20 if declared else None, loss_noise=0.002, seed=i)
        out.append(server_arrival(f"j{i:02d}", float(rng.uniform(0, 3000)), job, REQUEST, MACHINE, 6))
    return out


def run(policy: Policy, jobs: list[Arrival], *, noise: float = 0.0, restart_s: float = 30.0) -> World:
    physics = Physics(interval_s=300.0, restart_s=restart_s, observation_noise=noise)
    world = World(cluster(), policy, jobs, physics)
    world.run(until_s=1e6)
    return world


def mean_jct_s(world: World) -> float:
    return float(np.mean([run.finish_s - run.arrival.submit_s for run in world.jobs.values() if run.finish_s]))


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "forecast"])
def test_estimates_finish_every_job_little_later_than_the_truth(declared: bool) -> None:
    oracle = run(OptimusOracle(), workload(declared=declared))
    online = run(Optimus(), workload(declared=declared), noise=0.05)
    assert all(job.finish_s is not None for world in (oracle, online) for job in world.jobs.values())
    assert mean_jct_s(oracle) <= 1.1 * mean_jct_s(online)
    assert mean_jct_s(online) <= 1.5 * mean_jct_s(oracle)
    assert online.fits > 0
    assert oracle.fits == 0


def test_only_those_who_use_pre_runs_pay_for_them() -> None:
    job = ServerJob(KINDS["cnn-rand-sync"], epochs=4)
    alone = [server_arrival("a", 0.0, job, REQUEST, MACHINE, 6, PreRuns(seconds=40.0))]
    spans = [run(policy, alone, restart_s=10.0).jobs["a"].spans[0] for policy in (Optimus(), OptimusOracle())]
    assert [span.restarting_s for span in spans] == [210.0, 10.0]


def test_a_job_without_forecast_still_grows() -> None:
    job = ServerJob(KINDS["resnet50-sync"])
    world = run(Optimus(), [server_arrival("a", 0.0, job, REQUEST, MACHINE, 6)])
    assert world.jobs["a"].spans[0].gpus > 1  # Info.REMAINING is None until six losses are in
    assert world.jobs["a"].finish_s is not None


def test_losses_that_were_lost_with_a_node_are_reported_once() -> None:
    job = ServerJob(KINDS["resnet50-sync"])
    jobs = [server_arrival("a", 0.0, job, REQUEST, MACHINE, 6)]
    outages = tuple(Outage(f"n{i}", 1200.0, 1250.0) for i in range(6))
    lost = World(
        cluster(), Optimus(), jobs, Physics(interval_s=300.0, checkpoint_interval_s=1e9), outages=outages
    )
    lost.run(until_s=1e6)
    work = [done for done, _ in lost.jobs["a"].losses]
    assert work == sorted(set(work))
    assert lost.jobs["a"].restarts > 0
    assert lost.jobs["a"].finish_s is not None


def test_steps_of_two_help_the_kind_that_needs_both() -> None:
    job = ServerJob(KINDS["wide-sync"])
    jobs = [server_arrival("a", 0.0, job, REQUEST, MACHINE, 6)]
    together, alone = (run(OptimusOracle(pair_steps=pairs), jobs) for pairs in (True, False))
    assert alone.jobs["a"].spans[0].gpus == 1
    assert together.jobs["a"].spans[0].gpus == 2
    assert mean_jct_s(together) < mean_jct_s(alone)
