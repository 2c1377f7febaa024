"""``elastane submit``: hand in a job.  Checked here first, so that a wrong spec never leaves the machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from elastane.cli.live import connection, options, terminal, wait_for_end
from elastane.cli.live.exit_codes import ExitCode, Verb
from elastane.cli.live.spec_from_flags import Draft, Flags, draft
from elastane.errors import ElastaneError

if TYPE_CHECKING:
    from elastane.client.client import Client
    from elastane.service.messages import PackagedCode, ServerInfo, SharedCode, Submitted

HELP = """Submit a job: a spec in YAML, a script with #SBATCH headers, or a command behind --.

Flags override the file.  Example: elastane submit --workers 1:8 -- python train.py --lr 0.1

The job runs in this directory (on other machines in a copy of it), with the python and the environment (venv,
conda) that are active here.
"""

_COMMAND = "elastane.command"


class SubmitVerb(Verb):
    """Keeps the words behind ``--`` apart: they are the job's command, not options of ours."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the command away before options are looked for."""
        if "--" in args:
            at = args.index("--")
            args, ctx.meta[_COMMAND] = args[:at], args[at + 1 :]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Show the command in the line of usage."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND…]"]


def command(
    ctx: typer.Context,
    spec: list[str] = typer.Argument(
        None, metavar="SPEC", help="A job spec in YAML, or a script with #SBATCH headers."
    ),
    name: str = typer.Option(None, help="Name in lists; by default that of the script."),
    workers: str = typer.Option(None, help="How many workers: 2, or a range as in 1:8."),
    kind: str = typer.Option(None, help="auto, adaptive, resizable, rigid or command."),
    gpus: int = typer.Option(None, help="Accelerators (or CPU slots) of one worker."),
    batch: int = typer.Option(None, help="Batch size that the learning rate was chosen for."),
    epochs: int = typer.Option(None, help="Passes over the data after which training ends."),
    klass: str = typer.Option(None, "--class", help="guaranteed, normal or opportunistic."),
    priority: int = typer.Option(None, help="Higher goes first among equals."),
    deadline: str = typer.Option(None, help="When the result is needed: 8h, or 2030-01-31T18:00Z."),
    tenant: str = typer.Option(None, help="Who pays: a team or a person."),
    env: list[str] = typer.Option([], help="NAME=VALUE for the job's environment; may be repeated."),
    export: list[str] = typer.Option(
        [],
        metavar="NAME[,NAME…]",
        help="Take more of your variables along: names, NAME=VALUE, ALL (but no secrets), or NONE; "
        "PATH, PYTHONPATH, VIRTUAL_ENV and the like always are.",
    ),
    retries: int = typer.Option(None, help="Restarts after a failure of its own."),
    workdir: str = typer.Option(None, help="Directory to run in [default: this one]."),
    package: bool = typer.Option(
        False,
        "--package",
        help="Send a copy of the directory along [default: if there are nodes on other machines].",
    ),
    shared: bool = typer.Option(
        False, "--shared", help="Every node sees the directory under the same path: send nothing."
    ),
    key: str = typer.Option(None, help="Submitting again with the same key means the same job."),
    watch: bool = typer.Option(False, "--watch", help="Tell what happens until the job ends."),
    as_json: bool = options.AS_JSON,
) -> None:
    """Checks a job spec and submits it."""
    flags = Flags(
        name,
        workers,
        kind,
        gpus,
        batch,
        epochs,
        klass,
        priority,
        deadline,
        tenant,
        tuple(env),
        retries,
        workdir,
    )
    written = draft(_only(spec), flags, ctx.meta.get(_COMMAND, ()))
    _check(written, key)
    if package and shared:
        raise ElastaneError("--package sends the directory, --shared says that it need not be sent; give one")
    client = connection.connect()
    server = client.info()
    values, notes = _surroundings(server, written, tuple(export))
    code, left_out = _code(client, server, written, package=package, shared=shared)
    answer = client.submit(values, directory=str(Path.cwd()), key=key, code=code)
    _report(answer, (*written.warnings, *notes, *left_out, *answer.warnings), as_json, watch)
    if watch:
        raise typer.Exit(_watch(client, answer.id))


def _only(spec: list[str] | None) -> str | None:
    if spec and len(spec) > 1:
        raise ElastaneError(f"put -- in front of a command: elastane submit -- {' '.join(spec)}")
    return spec[0] if spec else None


def _check(written: Draft, key: str | None) -> None:
    from elastane.jobs.unsupported import submitted_spec

    if key is not None and not 1 <= len(key) <= 200:
        raise ElastaneError(f"--key: got {len(key)} characters; expected 1 to 200")
    submitted_spec(written.values, written.source)


def _code(
    client: Client, server: ServerInfo, written: Draft, *, package: bool, shared: bool
) -> tuple[SharedCode | PackagedCode | None, tuple[str, ...]]:
    """How the directory comes to the nodes; on a service whose nodes are all its own machine's it is there."""
    from elastane.service.messages import SharedCode

    if shared:
        return SharedCode(), ()
    if not package and not server.elsewhere:
        return None, ()
    from elastane.cli.live.progress import transfer
    from elastane.client.send_directory import send_directory

    with transfer() as progress:
        sent = send_directory(client, Path.cwd(), written.values.get("workdir"), progress)
    return sent.code, sent.notes


def _surroundings(
    server: ServerInfo, written: Draft, export: tuple[str, ...]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The spec with what the job takes along from here, unless the service is elsewhere."""
    from elastane.client.job_environment import sees_our_files, take_along

    asked = (*export, *filter(None, [written.export]))
    if sees_our_files(server):
        taken = take_along(written.values, Path.cwd(), asked)
        return taken.values, taken.warnings
    if export:
        raise ElastaneError("--export: the service is on another machine; use --env NAME=VALUE")
    return written.values, ()


def _report(answer: Submitted, warnings: tuple[str, ...], as_json: bool, watched: bool) -> None:
    for warning in warnings:
        terminal.say(f"warning: {warning}")
    if as_json:
        typer.echo(terminal.document({"id": answer.id, "name": answer.name, "repeated": answer.repeated}))
        return
    verb = "already submitted as" if answer.repeated else "submitted"
    typer.echo(f"{verb} {terminal.clean(answer.id)} ({terminal.clean(answer.name)})")
    if not watched:
        terminal.say(f"next: elastane status {answer.id}, elastane logs -f {answer.id}")


def _watch(client: Client, id: str) -> ExitCode:
    try:
        return wait_for_end.code_of_end(wait_for_end.wait(client, id, wait_for_end.tell))
    except KeyboardInterrupt:
        terminal.say(f"{id} goes on; end it with: elastane cancel {id}")
        return ExitCode.INTERRUPTED
