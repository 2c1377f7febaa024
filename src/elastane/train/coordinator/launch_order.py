"""Says what to run and how: the options of one job, and what its fork servers and workers are told of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from elastane.train.coordinator.contract import Decider
from elastane.train.coordinator.forkserver import ENDPOINT, NODE, TOKEN
from elastane.train.coordinator.gang_coordinator import PlainCoordinator
from elastane.train.coordinator.own_devices import OwnDevices
from elastane.train.coordinator.script_kind import JobKind
from elastane.train.coordinator.script_runner import Order
from elastane.train.coordinator.scripted_events import Wish
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.spawners import Parentage


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What to run and how: a Python ``script``, or any ``program`` with its arguments.

    ``places`` are workers by node; without them all are on this machine.
    """

    script: str = ""
    arguments: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    python: str = ""
    """The interpreter of an adaptive script; empty is our own."""
    places: Mapping[str, int] = field(default_factory=dict)
    run: Path = Path("runs/job")
    records: Path | None = None
    """Where the supervisor keeps what workers shall not write (plans, reports, its address): else in ``run``."""
    settings: Settings = field(default_factory=Settings)
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: Path = Path()
    module: bool = False
    threads: int = 1
    preload: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    wishes: tuple[Wish, ...] = ()
    seed: int = 0
    warm_nice: int = 5
    kind: JobKind = JobKind.ADAPTIVE
    guessed: bool = False
    """Nobody said what kind it is: a worker of a plain job that calls into ``elastane.train`` is heard."""
    devices: OwnDevices = OwnDevices()
    """Those of this machine; none where an agent has the devices of its node."""
    told_alone: bool = True
    """Whether the only worker of a plain job gets what torchrun would set."""

    def log_of(self, worker: str) -> Path:
        """Where a worker's output goes."""
        return self.run / "logs" / f"{worker}.log"


@dataclass(frozen=True, slots=True)
class LaunchOrders:
    """The orders of one job whose supervisor listens at ``endpoint``."""

    options: JobOptions
    endpoint: str
    token: str = field(repr=False)
    """That of workers and fork servers."""

    def parentage(self) -> Parentage:
        """What a fork server is told."""
        options = self.options
        # A command starts once: importing PyTorch for it beforehand would only make it wait.
        cold = options.program != () or (options.kind is JobKind.COMMAND and not options.preload)
        return Parentage(
            self.endpoint,
            self.token,
            options.run,
            cold,
            options.threads,
            options.preload,
            options.python,
            options.environment,
            options.directory.resolve(),
        )

    def order(self, worker: str, node: str, coordinator: Decider) -> Order | None:
        """What a worker is told; None while the others of its gang cannot be told where to meet rank 0."""
        options = self.options
        if isinstance(coordinator, PlainCoordinator):
            if not coordinator.meets_at:
                return None
            talk = self._talk(worker, node) if options.guessed else {}
            particular, joins = {**talk, **coordinator.environment(worker)}, False
        else:
            particular, joins = self._talk(worker, node), coordinator.current is not None
        return Order(
            worker=worker,
            script=options.script,
            arguments=options.arguments,
            program=options.program,
            environment={**options.environment, **options.devices.environment(worker), **particular},
            log=str(options.log_of(worker).resolve()),
            directory=str(options.directory.resolve()),
            module=options.module,
            nice=options.warm_nice if joins else 0,
        )

    def _talk(self, worker: str, node: str) -> dict[str, str]:
        """Variables with which a worker finds its supervisor."""
        return {
            ENDPOINT: self.endpoint,
            TOKEN: self.token,
            NODE: node,
            "ELASTANE_WORKER": worker,
            "ELASTANE_RUN": str(self.options.run.resolve()),
            "ELASTANE_THREADS": str(self.options.threads),
        }
