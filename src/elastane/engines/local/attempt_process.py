"""The process that runs one attempt: a supervisor whose fork servers belong to the agents of nodes.

It is started at most once at a time (``lock``), may be started again when it was killed, and says how the attempt
ended (``ended.json``) only when none of its processes is left.  The control plane is not needed for any of it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from elastane.engines.contract import Cause, cause_of
from elastane.engines.local.agent_fork_servers import AgentForkServers
from elastane.engines.local.command import kind_of, runnable, source_of
from elastane.engines.local.job_folders import make_folders, out_of_reach
from elastane.engines.local.json_files import Lock, read_json, write_json
from elastane.engines.local.launch_file import ended_json, launch_from_json
from elastane.engines.local.log_rotation import rotate
from elastane.engines.local.members_file import Members, write_members
from elastane.engines.local.paths import BEGUN, CONTROL, ENDED, LAUNCH, LOCK, Layout
from elastane.engines.local.remedies import with_remedy
from elastane.engines.local.survive_errors import Trouble
from elastane.kit.storage_urls import VARIABLE as CHECKPOINTS
from elastane.train.coordinator.device_locks import WORKER_DEVICES
from elastane.train.coordinator.job_user import Identity
from elastane.train.coordinator.script_kind import Choice, JobKind
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.supervisor import JobOptions, Supervisor
from elastane.train.coordinator.torchrun_env import told_alone
from elastane.train.errors import TrainError
from elastane.train.exit_cause import ExitCause, ExitKind, given_up
from elastane.train.transport_choice import TRANSPORT, wished

HELLO = "ELASTANE_HELLO_S"
"""In a job's environment: how long its workers may take until they call ``et.init()``."""
_MEMBERS_S = 0.2


class AttemptProcess:
    """One attempt, from its launch to its end."""

    def __init__(self, folder: Path) -> None:
        values = read_json(folder / LAUNCH)
        if values is None:
            raise TrainError(f"{folder} has no launch")
        self.launch, self._places = launch_from_json(values)
        self._identity = Identity.from_json(values.get("identity"))
        self._folder = folder
        self._layout = Layout(folder.parent.parent.parent)
        launch, place = self.launch, Path(self.launch.directory)
        self._runnable = runnable(launch.command, place, launch.environment, launch.python)
        self._choice = (
            kind_of("auto", self._runnable, place, launch.environment)
            if self.launch.kind == "auto"
            else Choice(JobKind(self.launch.kind), "")  # whoever chose it knows why
        )

    async def run(self) -> None:
        """Supervise the attempt to its end, and write down how it ended (``ended.json``)."""
        launch = self.launch
        begun = self._folder / BEGUN
        adopt = begun.exists() and (launch.records / CONTROL).exists() and self._choice.kind is JobKind.ADAPTIVE
        begun.touch()
        end, misjudged = await self._supervise(adopt=adopt)
        if misjudged:  # nothing was trained yet: that call comes first
            self._choice = Choice(JobKind.ADAPTIVE, "its process called elastane.train")
            end, _ = await self._supervise(adopt=False)
        write_json(self._folder / ENDED, ended_json(end, time.time()), durable=True)

    async def _supervise(self, *, adopt: bool) -> tuple[ExitCause, bool]:
        """How it ended, and whether the job turned out to be of another kind."""
        launch = self.launch
        try:
            make_folders(launch.run, self._identity)
            options = self._options()
        except TrainError as error:
            return given_up(str(error)), False
        closed = self._out_of_reach()
        if closed:
            return ExitCause(ExitKind.UNSTARTABLE, detail=closed), False
        log = launch.records / "nursery.log"
        fork_servers = AgentForkServers(
            self._layout, str(launch.attempt), log, self._layout.nodes() if adopt else (), self._identity
        )
        supervisor = Supervisor(options, _ignore, None, fork_servers)
        members = asyncio.create_task(self._write_members(supervisor, fork_servers))
        try:
            ended = await supervisor.run(adopt=adopt)
            assert ended.exit is not None
            end = end_of_job(ended.exit, self._choice.kind)
        except TrainError as error:
            end = given_up(str(error))
        finally:
            members.cancel()
        if not end.clean:
            end = with_remedy(end, self._runnable)
        return end, supervisor.spoken_to and cause_of(end) is Cause.FAILED

    def _out_of_reach(self) -> str:
        """What the user who shall run it may not use, if anything."""
        if self._identity is None:
            return ""
        source = source_of(self._runnable, Path(self.launch.directory))
        script = str(source) if source else ""
        closed = out_of_reach(
            self._identity, self.launch.directory, script, self._runnable.python or sys.executable
        )
        return f"jobs of tenant {self.launch.tenant} run as another user here, and {closed}" if closed else ""

    def _options(self) -> JobOptions:
        launch, what = self.launch, self._runnable
        # Only a script that talks to us needs a process of ours around it.
        outside = bool(what.python) and self._choice.kind is not JobKind.ADAPTIVE
        source = source_of(what, Path(launch.directory), launch.environment)
        saving = {"ELASTANE_CHECKPOINT_EVERY": str(launch.checkpoint_s)} if launch.checkpoint_s else {}
        place = {CHECKPOINTS: launch.checkpoints} if launch.checkpoints else {}
        settings = Settings(
            workers=max(1, sum(self._places.values())),
            max_workers=launch.most_workers,
            hello_s=_hello_s(launch.environment.get(HELLO)),
            transport=wished(launch.environment.get(TRANSPORT)),
        )
        return JobOptions(
            script="" if outside else what.script,
            arguments=() if outside else what.arguments,
            program=what.words if outside else what.program,
            python="" if outside else what.python,
            places=self._places,
            run=launch.run,
            records=launch.records,
            settings=settings,
            environment={
                "ELASTANE_JOB": launch.attempt.job,
                **saving,
                **launch.environment,
                **what.wrapped.environment,
                **launch.declared.environment(),
                **place,
                WORKER_DEVICES: str(launch.worker_slots),
            },
            directory=Path(launch.directory),
            module=what.module,
            kind=self._choice.kind,
            guessed=launch.guessed,
            told_alone=what.wrapped.told or told_alone(self._choice.kind, source),
        )

    async def _write_members(self, supervisor: Supervisor, fork_servers: AgentForkServers) -> None:
        """Who is there, for whoever wants to know; only when it changes.  Long logs are set aside on the way."""
        last: Members | None = None
        size = int(self.launch.worker_memory_gb * 1e9)
        name = f"attempt {self.launch.attempt}"
        writing, limiting = Trouble(f"{name}: its members were not written"), Trouble(f"{name}: no limits")
        rotating = Trouble(f"{name}: its logs were not set aside")
        while True:  # a full disk must not end more than what needs it
            with writing.logged():
                members = Members.of(self._choice.kind, self._choice.reason, supervisor.status())
                if members != last:
                    write_members(self._folder, members)
                    last = members
            with rotating.logged():
                rotate(self.launch.run / "logs")
            with limiting.logged():
                if size:  # those that are about to leave count as well
                    await fork_servers.limit(size, supervisor.workers_by_node())
            await asyncio.sleep(_MEMBERS_S)


def _hello_s(text: str | None) -> float:
    try:
        seconds = float(text) if text is not None else Settings().hello_s
    except ValueError:
        seconds = 0.0
    if not seconds > 0.0:
        raise TrainError(f"{HELLO}: must be a number of seconds above 0, not {text!r}")
    return seconds


def _ignore(_: object) -> None:
    """The journal has it."""


def end_of_job(end: ExitCause, kind: JobKind) -> ExitCause:
    """How the end of its last process counts for a job: an adaptive one goes on without a node.

    Where it does not, its own last worker failed, so that the loss of a node is no excuse.
    """
    survives = end.kind is ExitKind.NODE_LOST and kind is JobKind.ADAPTIVE
    return given_up(str(end)) if survives else end


def run_attempt(folder: Path) -> None:
    """Run it, unless somebody does or has."""
    lock = Lock(folder / LOCK)
    if lock.take() and not (folder / ENDED).exists():
        asyncio.run(AttemptProcess(folder).run())
