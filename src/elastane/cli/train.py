"""``elastane train``: run a training script with workers that come and go, and look at what happened."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from typer.core import TyperGroup

from elastane.kit.storage_urls import VARIABLE as CHECKPOINTS
from elastane.kit.storage_urls import checked
from elastane.train.errors import TrainError

if TYPE_CHECKING:
    from elastane.train.coordinator.messages import FromClient
    from elastane.train.coordinator.own_devices import OwnDevices
    from elastane.train.coordinator.supervisor import JobOptions

Said = TypeVar("Said")
HELP = "Run a training script elastically on this machine; plot, resize or inspect a run."


class _RunByDefault(TyperGroup):
    """``elastane train script.py`` means ``elastane train run script.py``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the verb in where there is none."""
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_RunByDefault, help=HELP, no_args_is_help=True, rich_markup_mode=None)


@app.command(
    "run",
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False},
    help="Run SCRIPT with elastic workers (the default: 'run' may be left out).",
)
def run(
    script: str = typer.Argument(help="A Python script that uses elastane.train, or a torchrun script."),
    arguments: list[str] = typer.Argument(None, help="Passed on to the script."),
    workers: int = typer.Option(1, min=1, help="Workers to begin with."),
    resize: str = typer.Option(None, help="Change the number of workers, as in 1:30s,4:60s,2:90s."),
    chaos: list[str] = typer.Option([], help="Break something: kill:45s, kill-leader:45s or stop:45s."),
    mode: str = typer.Option(None, help="fixed, adaptive or consistent, unless the script says so."),
    run_dir: Path = typer.Option(None, "--run", help="Folder of the run; one that exists is resumed."),
    checkpoints: str = typer.Option(
        None,
        envvar=CHECKPOINTS,
        metavar="URL",
        help="Where to save: s3://, gs://, file:// or an absolute path [default: RUN/checkpoints].",
    ),
    adopt: bool = typer.Option(False, help="Take over the workers of --run, whose supervisor has died."),
    threads: int = typer.Option(1, min=1, help="Threads of each worker."),
    preload: str = typer.Option("", help="Modules to import before workers are forked, as in sklearn,pandas."),
    no_shadow: bool = typer.Option(False, "--no-shadow", help="Copy state at the switch instead of following."),
    lease: float = typer.Option(6.0, min=0.5, help="Seconds of silence after which a worker counts as lost."),
    hello: float = typer.Option(600.0, min=1.0, help="Seconds a worker may take until it calls et.init()."),
    seed: int = typer.Option(0, help="Chooses the victims of --chaos."),
    transport: str = typer.Option(
        "staged", envvar="ELASTANE_TRANSPORT", help="Gradients between GPUs: staged, nccl or auto."
    ),
    traffic: str = typer.Option(
        None,
        help="Type in which gradients travel: fp32, or bf16 for half the bytes, unless the script says so.",
    ),
    share_devices: bool = typer.Option(False, "--share-devices", help="Several workers may use the same GPU."),
    kind: str = typer.Option("auto", help="auto (by what SCRIPT uses), adaptive, resizable or command."),
    module: bool = typer.Option(False, "-m", help="SCRIPT is a module name, as with python -m."),
    as_json: bool = typer.Option(False, "--json", help="Print the summary as JSON."),
) -> None:
    """Run a script alone on this machine."""
    from rich.console import Console

    from elastane.train.coordinator.own_devices import OwnDevices
    from elastane.train.coordinator.script_kind import JobKind, choose_kind, source_of_module
    from elastane.train.coordinator.scripted_events import parse_wishes
    from elastane.train.coordinator.settings import Settings
    from elastane.train.coordinator.supervisor import JobOptions, Supervisor
    from elastane.train.coordinator.torchrun_env import told_alone
    from elastane.train.reports.event_file import load_run
    from elastane.train.reports.progress import ProgressDisplay
    from elastane.train.reports.summary import summarise
    from elastane.train.run_folder import default_run
    from elastane.train.torch_range import check_torch
    from elastane.train.traffic import TRAFFIC, traffic_of
    from elastane.train.transport_choice import wished
    from elastane.train.worker.checkpoint_store_objects import check_packages

    traffic_of(traffic, consistent=mode == "consistent")
    _refuse_commands([script, *(arguments or ())], module=module)
    if not module and not Path(script).is_file():
        raise TrainError(f"there is no script {script}")
    source = source_of_module(script, Path.cwd()) if module else Path(script)
    choice = choose_kind(kind, source)
    if choice.kind is JobKind.ADAPTIVE:
        check_torch()
    wishes = parse_wishes(resize, chaos)
    devices = _devices(share_devices) if choice.kind is JobKind.ADAPTIVE else OwnDevices()
    devices.check(max([workers, *(wish.workers for wish in wishes)]))
    if checkpoints:
        check_packages(checked(checkpoints, "--checkpoints"))
    options = JobOptions(
        script=script if module else str(Path(script).resolve()),
        arguments=tuple(arguments or ()),
        run=run_dir or default_run(script, time.time()),
        settings=Settings(
            workers=workers,
            max_workers=devices.most_workers,
            shadow=not no_shadow,
            transport=wished(transport),
            lease_s=lease,
            hello_s=hello,
        ),
        environment={
            key: said
            for key, said in (("ELASTANE_MODE", mode), (CHECKPOINTS, checkpoints), (TRAFFIC, traffic))
            if said
        },
        directory=Path.cwd(),
        module=module,
        threads=threads,
        preload=tuple(filter(None, preload.split(","))),
        wishes=wishes,
        devices=devices,
        seed=seed,
        kind=choice.kind,
        told_alone=told_alone(choice.kind, source),
    )
    console = Console(stderr=True)
    display = ProgressDisplay(console, time.monotonic)
    typer.echo(f"kind: {choice.kind}, because {choice.reason}", err=True)
    # Without a progress line to keep clear of, a script's output goes where it would go alone.
    plain = choice.kind is not JobKind.ADAPTIVE and not as_json
    echo = typer.echo if plain else lambda line: display.print(f"{line}\n")
    supervisor = Supervisor(options, display.show, echo)
    try:
        ended = asyncio.run(supervisor.run(adopt=adopt))
    finally:
        display.close()
    summary = summarise(load_run(options.run))
    if as_json:
        document = {"run": str(options.run), "ended": dataclasses.asdict(ended), **summary.to_json()}
        typer.echo(json.dumps(document, indent=2))
    else:
        console.print(summary.table())
        console.print(f"Everything is in {options.run}; see it with: elastane train plot {options.run}")
        if ended.outcome == "stopped" and summary.checkpoints:
            again = how_to_resume(options, workers, script, mode)
            console.print(f"It was saved at step {ended.step:,}; go on with: {again}", soft_wrap=True)
    if ended.outcome != "finished":
        typer.echo(f"elastane: {ended.outcome}: {ended.cause}", err=True)
        raise typer.Exit(130 if ended.outcome == "stopped" else 1)


def _devices(shared: bool) -> OwnDevices:
    """The accelerators that workers are given here; those that are left out are told of."""
    from elastane.accelerators import discover
    from elastane.accelerators.probe import torch_builds
    from elastane.train.coordinator.own_devices import locks_of_user, own_devices

    found = discover()
    for problem in found.problems:
        typer.echo(f"note: {problem}", err=True)
    return own_devices(found.devices, torch_builds(), os.environ, shared=shared, locks=locks_of_user())


def how_to_resume(options: JobOptions, workers: int, script: str, mode: str | None) -> str:
    """Compose the command that resumes a stopped run from its checkpoint."""
    words = ["elastane", "train", "--run", str(options.run)]
    words += [f"--workers={workers}"] if workers > 1 else []
    words += [f"--mode={mode}"] if mode else []
    place = options.environment.get(CHECKPOINTS)
    words += [f"--checkpoints={place}"] if place else []
    traffic = options.environment.get("ELASTANE_TRAFFIC")
    words += [f"--traffic={traffic}"] if traffic else []
    return shlex.join([*words, *(["-m"] if options.module else []), script, *options.arguments])


def _refuse_commands(words: list[str], *, module: bool) -> None:
    """Say what to write instead of a command with an interpreter or a launcher in front."""
    from elastane.jobs.wrapping import is_python, unwrap

    found = unwrap(words)
    if module or not found.script or (Path(words[0]).is_file() and not os.access(words[0], os.X_OK)):
        return
    python = f"{words[0]} -m elastane train" if is_python(words[0]) and os.sep in words[0] else "elastane train"
    count = f" --workers {found.workers[0]}" if found.workers else ""
    instead = f"{python}{count} {'-m ' if found.module else ''}{found.script}"
    raise TrainError(
        f"elastane train takes a script and runs it with its own interpreter, {sys.executable}; "
        f"instead of '{words[0]} …' write: {instead} …"
    )


@app.command("plot", help="Draw workers, batch, efficiency and loss of a run.")
def plot(
    run_dir: Path = typer.Argument(metavar="RUN", help="Folder of the run."),
    html: Path = typer.Option(None, help="Where to write the page [default: RUN/plot.html]."),
    terminal: bool = typer.Option(False, "--terminal", help="Draw in the terminal only."),
    as_json: bool = typer.Option(False, "--json", help="Print the summary as JSON instead."),
) -> None:
    """Draw a finished or running run: step time, workers, batch and pauses over time."""
    from rich.console import Console

    from elastane.train.reports.event_file import load_run
    from elastane.train.reports.plot import plot_html, plot_terminal
    from elastane.train.reports.summary import summarise

    events = load_run(run_dir)
    if as_json:
        typer.echo(json.dumps(summarise(events).to_json(), indent=2))
        return
    plot_terminal(events, Console())
    if not terminal:
        target = html or run_dir / "plot.html"
        plot_html(events, target)
        typer.echo(f"Open {target} in a browser.", err=True)


@app.command("resize", help="Change the number of workers of a running job.")
def resize_run(
    run_dir: Path = typer.Argument(metavar="RUN", help="Folder of the run."),
    workers: int = typer.Argument(min=1, help="How many workers from now on."),
) -> None:
    """Ask a running job's coordinator."""
    from elastane.train.coordinator.messages import Ok, Resize

    granted = _ask(run_dir, Resize(workers), Ok).workers
    if granted != workers:
        raise TrainError(f"{run_dir}: the job does not take {workers} workers, it has {granted}")
    typer.echo(f"{run_dir}: {workers} workers from now on", err=True)


@app.command("status", help="Members, generation and step of a running job.")
def status(
    run_dir: Path = typer.Argument(metavar="RUN", help="Folder of the run."),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Ask a running job's coordinator."""
    from msgspec import to_builtins

    from elastane.train.coordinator.messages import AskStatus, Status

    answer = _ask(run_dir, AskStatus(), Status)
    if as_json:
        facts = to_builtins(answer)
        del facts["type"]
        typer.echo(json.dumps(facts, indent=2))
        return
    typer.echo(f"generation {answer.generation}, step {answer.step}, target {answer.target} workers")
    for name, worker in answer.workers.items():
        rank = answer.members.index(name) if name in answer.members else "-"
        typer.echo(f"  {name}  rank {rank}  pid {worker.pid}  {worker.phase}, {worker.doing}")


def _ask(run_dir: Path, message: FromClient, expected: type[Said]) -> Said:
    from elastane.train.coordinator.control_file import control_of
    from elastane.train.coordinator.login import connect
    from elastane.train.coordinator.messages import TO_CLIENT, NotUnderstood

    control = control_of(run_dir)
    try:
        connection = connect(str(control["host"]), int(control["port"]), "client", str(control["token"]))
        connection.send(message)
        answer = next(connection.messages(TO_CLIENT), None)
    except OSError as error:
        raise TrainError(f"the supervisor of {run_dir} does not answer: {error}") from error
    connection.close()
    if isinstance(answer, NotUnderstood):
        raise TrainError(f"the supervisor of {run_dir} did not understand: {answer.cause}")
    if not isinstance(answer, expected):
        raise TrainError(f"the supervisor of {run_dir} did not answer")
    return answer
