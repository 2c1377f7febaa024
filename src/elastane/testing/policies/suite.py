"""The suite that every policy inherits.  X-numbers are those of the policy specification's conformance list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any, ClassVar

import pytest

from elastane.cluster import Node
from elastane.policies.contract import Policy
from elastane.policies.view import JobView, View
from elastane.scheduling.decide import Decision
from elastane.testing.policies import scenarios
from elastane.testing.policies.checks import (
    check_decision,
    check_explained,
    check_limits,
    check_same,
    check_serialisable,
    check_settled,
    decide,
)
from elastane.testing.policies.jobs import Trial
from elastane.testing.policies.variants import reordered, scrambled, through_json, with_nodes, without_node
from elastane.testing.policies.views import described, random_view
from elastane.testing.policies.world import World


class PolicyConformance:
    """Inherit and set ``policy``.  Tests marked ``slow`` want that marker registered in your pytest settings.

    ``examples`` is how many random views each property is tried on, and as many again of hypothesis's choice.
    ``starvation_bound_s`` is how long a job may wait under a stream of others where the policy declares
    ``starvation_free``.  ``patience`` is how often the policy may change its mind when asked again at the same
    instant: only a search that goes on where it stopped needs more than 1.
    """

    policy: ClassVar[Policy]
    examples: ClassVar[int] = 12
    starvation_bound_s: ClassVar[float] = 10_000.0
    patience: ClassVar[int] = 1

    # ---- one decision ----------------------------------------------------------------------------------

    def test_every_decision_on_a_sane_view_is_sound(self) -> None:
        """X-1: capacity, gangs, sizes and types hold, the guard refuses nothing, all who wait are told why."""
        self._for_views(lambda view: check_decision(*decide(self.policy, view), view))

    def test_the_same_view_gives_the_same_plan(self) -> None:
        """X-2: no clock, no global randomness, nothing remembered outside the plan, the view left as it was."""

        def check(view: View) -> None:
            first = decide(self.policy, view)
            check_same(first, decide(self.policy, view), "the same view twice")
            check_same(first, decide(replace(self.policy), view), "a fresh copy of the policy")
            remembered = through_json(first[0].memory)
            decide(self.policy, replace(view, memory=remembered))
            assert remembered == through_json(first[0].memory), "the policy wrote into view.memory"

        self._for_views(check)

    def test_the_order_in_which_jobs_and_nodes_are_listed_does_not_matter(self) -> None:
        """X-2: a plan depends on what is in the view, not on how its mappings were filled."""

        def check(view: View) -> None:
            other = reordered(view, Random(len(view.jobs)))
            check_same(decide(self.policy, view), decide(self.policy, other), "listed in another order")

        self._for_views(check)

    @pytest.mark.parametrize("value", [float("nan"), 0.0, 1e12])
    def test_what_was_not_declared_does_not_matter(self, value: float) -> None:
        """X-3: every fact outside ``needs.info`` may be nonsense; reading it by its property raises."""

        def check(view: View) -> None:
            hidden = scrambled(view, value)
            check_same(decide(self.policy, view), decide(self.policy, hidden), f"hidden facts set to {value}")

        self._for_views(check)

    def test_deciding_again_at_the_same_instant_changes_nothing(self) -> None:
        """X-4: a plan is a complete desired state; once it is reality there is nothing left to do.

        Tried on states that the policy could have brought about: a rigid one gives what was asked for, and a job
        that cannot be moved where it stands is freer once it has stopped.
        """
        of_its_own = {"rigid": not self.policy.elastic, "movable": True}
        self._for_views(lambda view: check_settled(self.policy, view, self.patience), **of_its_own)

    def test_a_vanished_node_is_not_used(self) -> None:
        """X-8: grants may still name a node that is gone; nobody is put there, its jobs move or wait with a reason."""

        def check(view: View) -> None:
            broken = without_node(view, min(view.nodes))
            _, lowered = decide(self.policy, broken)
            check_limits(lowered.grants, broken)
            check_explained(lowered, broken)

        self._for_views(check)

    @pytest.mark.parametrize("gpus", [(), (1,), (4, 4)])
    @pytest.mark.parametrize("jobs", [0, 1, 30])
    def test_extremes_are_survived(self, gpus: Sequence[int], jobs: int) -> None:
        """No nodes, no jobs, far more jobs than GPUs, a job wider than the cluster: a sound plan all the same."""
        view = random_view(Random(jobs), self.policy.needs.info, jobs=jobs, nodes=2)
        for extreme in (with_nodes(view, {f"m{i}": Node(f"m{i}", n) for i, n in enumerate(gpus)}), view):
            wide = {i: _widened(job) for i, job in list(extreme.jobs.items())[:3]}
            for tried in (extreme, replace(extreme, jobs={**extreme.jobs, **wide})):
                check_decision(*decide(self.policy, tried), tried)

    # ---- a life ----------------------------------------------------------------------------------------

    def test_every_step_of_a_busy_life_is_sound(self) -> None:
        """X-1, X-4: also with memory, history and suspended jobs of its own making."""
        for number, step in enumerate(self._busy().run(scenarios.HORIZON_S)):
            check_decision(step.plan, step.lowered, step.view)
            if number % 5 == 0:
                check_settled(self.policy, step.view, self.patience)

    def test_memory_survives_a_crash_at_any_step(self) -> None:
        """X-9: memory from a store and a newly made policy go on exactly as if nothing had happened."""
        whole, broken = self._busy(store=lambda memory: memory), self._busy(fresh=True)
        lives = [[_told(step) for step in world.run(scenarios.HORIZON_S)] for world in (whole, broken)]
        for before, after in zip(*lives, strict=False):
            assert before == after
        assert len(lives[0]) == len(lives[1])

    def test_two_lives_are_the_same(self) -> None:
        """X-2: decisions of one life do not leak into the next."""
        first, second = ([_told(step) for step in self._busy().run(scenarios.HORIZON_S)] for _ in range(2))
        assert first == second

    @pytest.mark.parametrize("cluster", scenarios.CLUSTERS, ids=lambda cluster: cluster.name)
    @pytest.mark.parametrize("trial", scenarios.SINGLES, ids=lambda trial: trial.id)
    def test_a_job_alone_starts_and_finishes(self, cluster: scenarios.Machines, trial: Trial) -> None:
        """X-6: nothing is in its way, so it starts within one round and is done as fast as its least allows."""
        world = World(self.policy, cluster.nodes, [trial])
        period_s = self.policy.needs.period_s or 0.0
        limit_s = trial.submit_s + trial.slowest_s + 2 * period_s + 1.0
        _exhaust(world.run(limit_s))
        assert world.started_s.get(trial.id, limit_s) <= trial.submit_s + period_s, "it was left waiting"
        assert trial.id in world.finished_s, f"it has not finished after {limit_s:.0f} s"

    @pytest.mark.parametrize("trial", scenarios.FIXED, ids=lambda trial: trial.id)
    def test_a_job_that_cannot_be_suspended_keeps_its_grant(self, trial: Trial) -> None:
        """X-7: from its start to its end nothing changes for it, and the others still get on."""
        world = World(self.policy, scenarios.PAIR.nodes, [trial, *scenarios.crowd(after_s=1000.0)])
        held = set()
        for step in world.run(scenarios.HORIZON_S):
            check_decision(step.plan, step.lowered, step.view)
            if trial.id in step.view.jobs and (grant := step.lowered.grants.get(trial.id)):
                held.add(grant)
            assert not held or trial.id not in step.view.jobs or trial.id in step.lowered.grants, (
                "it was stopped"
            )
        assert len(held) == 1, f"its grant changed: {held}"
        self._check_all_done(world)

    def test_jobs_of_a_failed_node_are_queued_again(self) -> None:
        """X-8: a node goes, its jobs go on elsewhere or when it returns, and nobody is granted GPUs twice."""
        world = self._busy(outages=[("n000", 700.0, 2500.0)])
        for step in world.run(scenarios.HORIZON_S):
            check_decision(step.plan, step.lowered, step.view)
        self._check_all_done(world)

    @pytest.mark.parametrize("trial", scenarios.LONG, ids=lambda trial: trial.id)
    def test_nobody_starves(self, trial: Trial) -> None:
        """X-11: under an endless stream of short jobs a long one runs within a bound, if the policy says so."""
        if not self.policy.starvation_free:
            pytest.skip("the policy does not promise starvation_free")
        stream = scenarios.stream(self.starvation_bound_s)
        world = World(self.policy, scenarios.SINGLE.nodes, [*stream, trial])
        runs = any(trial.id in world.started_s for _ in world.run(self.starvation_bound_s))
        assert runs, f"{trial.id} has not run in {self.starvation_bound_s:.0f} s"

    @pytest.mark.slow
    def test_a_large_cluster_is_decided_on(self) -> None:
        """X-10: 1000 jobs on 256 nodes; time is measured by the benchmarks, here it only has to work."""
        view = random_view(Random(1), self.policy.needs.info, jobs=1000, nodes=256)
        plan, lowered = decide(self.policy, view)
        check_decision(plan, lowered, view)
        check_serialisable(plan)

    # ---- tools -----------------------------------------------------------------------------------------

    def _for_views(self, check: Callable[[View], None], **kind: bool) -> None:
        """Try ``check`` on random views; the same ones everywhere, so that red stays red and green stays green."""
        info = self.policy.needs.info

        def tried(view: View) -> None:
            try:
                check(view)
            except Exception as error:
                error.add_note(described(view))
                raise

        for seed in range(2 * self.examples):
            tried(random_view(Random(seed), info, **kind))

    def _busy(self, **options: Any) -> World:
        return World(self.policy, scenarios.PAIR.nodes, scenarios.crowd(), **options)

    def _check_all_done(self, world: World) -> None:
        left = [trial for trial in world.names if trial not in world.finished_s]
        assert not left, f"{', '.join(left)} did not finish within {scenarios.HORIZON_S:.0f} s"


def _widened(job: JobView) -> JobView:
    """A waiting job that asks for more than there is."""
    request = replace(job.request, workers=999, min_workers=999, max_workers=999)
    return job if job.grant else replace(job, request=request)


def _told(step: Decision) -> tuple[float, dict[str, Any], dict[str, str]]:
    return step.view.now_s, step.lowered.grants, step.lowered.waiting


def _exhaust(steps: Iterator[Decision]) -> None:
    for _ in steps:
        pass
