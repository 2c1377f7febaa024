"""The control plane as its API sees it: a facade that binds every verb to the part that answers it."""

from __future__ import annotations

from collections.abc import Sequence

from elastane.service.cluster_commands import ClusterCommands
from elastane.service.cluster_queries import ClusterQueries
from elastane.service.control.intake import Intake
from elastane.service.control.plane import ControlPlane
from elastane.service.eta_waiting import ClusterNow
from elastane.service.expected_ends import ExpectedEnds
from elastane.service.job_commands import JobCommands
from elastane.service.job_queries import JobQueries
from elastane.service.submission import Submission
from elastane.service.why import Known


class LiveService:
    """Implements ``protocol.Service`` over a control plane; it holds no state and decides nothing itself."""

    def __init__(self, plane: ControlPlane, warnings: Sequence[str] = ()) -> None:
        self.ends = ExpectedEnds(
            lambda: plane.live,
            lambda: ClusterNow(plane.engine.nodes(), plane.cluster.machines(), plane.clock()),
        )
        self.submit = Submission(
            Intake(plane.ledger, plane.store, plane.settings.pending_per_tenant, plane.poke),
            plane.store,
            plane.engine,
            plane.packages,
            plane.settings.checkpoints,
            lambda: plane.live.values(),
            plane.settings.home,
        ).submit
        self.package, self.keep_package = plane.packages.info, plane.packages.keep

        known = Known(plane.ledger, plane.engine, plane.decisions, plane.clock)
        jobs = JobQueries(known, plane.store, plane.cluster, plane.settings.home, self.ends)
        self.jobs, self.job, self.owner_of, self.why = jobs.jobs, jobs.job, jobs.owner_of, jobs.why
        self.life, self.logs, self.log_path = jobs.life, jobs.logs, jobs.log_path

        steer = JobCommands(
            plane.ledger,
            plane.store,
            plane.engine,
            plane.cluster,
            plane.driver,
            plane.release,
            plane.poke,
            plane.clock,
            jobs,
        )
        self.cancel, self.suspend, self.resume = steer.cancel, steer.suspend, steer.resume
        self.scale, self.move = steer.scale, steer.move

        cluster = ClusterQueries(
            plane.settings,
            plane.store,
            plane.engine,
            plane.ledger,
            plane.cluster,
            plane.decisions,
            plane.scaler,
            plane.changed,
            plane.clock,
            lambda: [*warnings, *plane.problems],
        )
        self.info, self.nodes, self.policy, self.quotas = (
            cluster.info,
            cluster.nodes,
            cluster.policy,
            cluster.quotas,
        )
        self.pools = cluster.pools
        self.events, self.wait_for_events, self.gauges = cluster.events, cluster.wait_for_events, cluster.gauges

        change = ClusterCommands(
            plane.store, plane.engine, plane.cluster, plane.decisions, plane.scaler, plane.poke, cluster
        )
        self.drain, self.set_quota, self.set_pool = change.drain, change.set_quota, change.set_pool
        self.set_policy, self.set_shadow = change.set_policy, change.set_shadow
