"""The verbs of the live system: everything that talks to a running server.

Modules here import nothing heavy before a verb runs, so that ``elastane --help`` stays quick.
"""

from __future__ import annotations

import typer

from elastane.cli.live import (
    eta,
    events,
    exit_codes,
    history,
    job_commands,
    logs,
    nodes,
    people,
    policy,
    pool,
    queue,
    quota,
    status,
    submit,
    why,
)
from elastane.cli.live.exit_codes import Verb


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line, and the table of exit codes to its help."""
    app.command("submit", cls=submit.SubmitVerb, help=submit.HELP)(submit.command)
    app.command("queue", cls=Verb, help=queue.HELP)(queue.command)
    app.command("status", cls=Verb, help=status.HELP)(status.command)
    app.command("logs", cls=Verb, help=logs.HELP)(logs.command)
    app.command("why", cls=Verb, help=why.HELP)(why.command)
    app.command("eta", cls=Verb, help=eta.HELP)(eta.command)
    app.command("cancel", cls=Verb, help=job_commands.CANCEL_HELP)(job_commands.cancel)
    app.command("suspend", cls=Verb, help=job_commands.SUSPEND_HELP)(job_commands.suspend)
    app.command("resume", cls=Verb, help=job_commands.RESUME_HELP)(job_commands.resume)
    app.command("scale", cls=Verb, help=job_commands.SCALE_HELP)(job_commands.scale)
    app.command("move", cls=Verb, help=job_commands.MOVE_HELP)(job_commands.move)
    app.command("nodes", cls=Verb, help=nodes.NODES_HELP)(nodes.show)
    app.command("drain", cls=Verb, help=nodes.DRAIN_HELP)(nodes.drain)
    app.command("events", cls=Verb, help=events.HELP)(events.command)
    app.add_typer(history.app, name="history")
    app.add_typer(policy.app, name="policy")
    app.add_typer(pool.app, name="pool")
    app.add_typer(people.users, name="user")
    app.add_typer(people.tokens, name="token")
    app.add_typer(quota.app, name="quota")
    app.info.epilog = exit_codes.TABLE
