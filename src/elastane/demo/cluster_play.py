"""Runs the cluster demo: one host is killed, one is added, and a cable is pulled and put back, while jobs train."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from elastane.client import Client
from elastane.demo.cast import Role
from elastane.demo.cluster_stage import ClusterStage
from elastane.demo.faults import Act, Deed, elsewhere, host_to_hit, jobs_on, survivor_pauses
from elastane.demo.narrator import Line
from elastane.demo.play import Play
from elastane.kit.durations import duration
from elastane.service.messages import JobDetail, JobSummary, NodeInfo

CLUSTER_CAST = (
    Role("cnn", "cnn", ("--epochs=150", "--mode=adaptive"), "batch and learning rate adapt", 0.0, most=3),
    Role("grammar", "grammar", ("--epochs=20",), "transformer on generated text", 3.0, most=3),
    Role("mlp", "mlp", ("--epochs=250",), "many small steps", 8.0, most=2),
)
_ORDER = (Act.KILL, Act.ADD, Act.PULL, Act.MEND)
_BEFORE_S = {Act.KILL: 6.0, Act.ADD: 3.0, Act.PULL: 5.0, Act.MEND: 3.0}
"""Seconds after the first step, or after the last deed was noticed, until the next one."""
_PATIENCE_S = 20.0
"""Seconds more that a blow waits for a host with a job that has workers elsewhere, too; then any job will do."""
_UP, _LOST = "up", "lost"


class ClusterPlay(Play):
    """One run of the cluster demo; afterwards it holds what was done to hosts, too."""

    longest_s: ClassVar[float] = 180.0

    def __init__(self, stage: ClusterStage, client: Client, cast: Sequence[Role] = CLUSTER_CAST) -> None:
        super().__init__(stage, client, cast)
        self.deeds: list[Deed] = []
        self._hosts = stage

    def _is_over(self, jobs: Sequence[JobSummary]) -> bool:
        ended = super()._is_over(jobs)
        return ended and (not self.deeds or self.deeds[-1].noticed_s is not None)

    def _may_begin(self) -> bool:
        """Jobs come when all hosts have joined, so that they are spread over them from the start."""
        return len(self.deeds) > 0 or sum(node.state == _UP for node in self._client.nodes()) > len(
            self._hosts.far
        )

    def _trouble(self, jobs: Sequence[JobSummary], now_s: float) -> list[Line]:
        nodes = {node.id: node for node in self._client.nodes()}
        details = [self._client.job(job.id) for job in jobs if job.ended_s is None]
        lines = [line for deed in self.deeds for line in self._noticed(deed, nodes, details, now_s)]
        deed = self._next(details, now_s)
        if deed is not None:
            self.deeds.append(deed)
            lines.append(Line(deed.at_s, deed.sentence()))
        return lines

    def finish(self) -> None:
        """Finds out from the jobs' own reports how long each loss kept survivors from training."""
        events = {name: self.journals.events(id) for name, id in self.ids.items()}
        ends = [deed.at_s for deed in self.deeds[1:]] + [float("inf")]
        for deed, end_s in zip(self.deeds, ends, strict=False):
            if deed.is_loss:
                deed.pauses_s = survivor_pauses(deed, events, end_s)

    # What is done.

    def _next(self, jobs: Sequence[JobDetail], now_s: float) -> Deed | None:
        if len(self.deeds) == len(_ORDER) or self._trains_s is None:
            return None
        act, since_s = _ORDER[len(self.deeds)], self._trains_s
        if self.deeds:
            last = self.deeds[-1]
            if last.noticed_s is None:
                return None
            since_s = last.at_s + last.noticed_s
        waited_s = now_s - since_s - _BEFORE_S[act]
        return self._do(act, jobs, waited_s) if waited_s >= 0.0 else None

    def _do(self, act: Act, jobs: Sequence[JobDetail], waited_s: float) -> Deed | None:
        box = self._hosts.box
        if act is Act.MEND:
            host = next(host for host in box.hosts if host.name == self.deeds[-1].host)
            host.mend()
            return Deed(time.time(), act, host.name)
        if act is Act.ADD:
            at_s, host = time.time(), box.add()
            self._hosts.cluster.join(host)
            return Deed(at_s, act, host.name)
        standing = {host.name: host for host in self._hosts.far if host.alive}
        name = host_to_hit(list(standing), jobs, spread=waited_s < _PATIENCE_S)
        if name is None:
            return None
        deed = Deed(time.time(), act, name, jobs_on(name, jobs))
        if act is Act.KILL:
            standing[name].kill(silently=False)
        else:
            standing[name].cut()
        return deed

    # What is noticed.

    def _noticed(
        self, deed: Deed, nodes: dict[str, NodeInfo], jobs: Sequence[JobDetail], now_s: float
    ) -> list[Line]:
        lines = []
        state = nodes[deed.host].state if deed.host in nodes else _LOST
        if deed.noticed_s is None and state == (_LOST if deed.is_loss else _UP):
            deed.noticed_s = time.time() - deed.at_s
            lines.append(Line(now_s, deed.notice()))
        here = [job.name for job in jobs if elsewhere(job, deed.host) is not None]
        if not deed.is_loss and deed.noticed_s is not None and deed.used_s is None and here:
            deed.used_s = time.time() - deed.at_s
            lines.append(Line(now_s, f"{here[0]} trains on {deed.host}, {duration(deed.used_s)} after that"))
        return lines
