"""``elastane policy``: how decisions are made, and how they would be made otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from elastane.cli import policies
from elastane.cli.live import completion, connection, options, terminal, times
from elastane.cli.live.exit_codes import Verb
from elastane.cli.live.groups import ShowByDefault, group
from elastane.errors import ElastaneError
from elastane.kit.durations import duration

if TYPE_CHECKING:
    from elastane.service.messages import PolicyInfo

HELP = "Show or change how jobs are scheduled; a shadow policy only says what it would have done."

app = group(ShowByDefault, HELP)
app.command("list", cls=Verb, help=policies.HELP)(policies.command)


@app.command("show", cls=Verb, help="Show the policy and its shadow (the default).")
def show(as_json: bool = options.AS_JSON) -> None:
    """Prints the policy, its figures and its shadow."""
    _print(connection.connect().policy(), as_json)


@app.command("set", cls=Verb, help="Decide by another policy from now on.")
def set_policy(
    written: str = typer.Argument(
        metavar="POLICY", help="A name, or 'NAME(option=value,…)'.", autocompletion=completion.policies
    ),
    as_json: bool = options.AS_JSON,
) -> None:
    """Changes the policy of the running system."""
    _print(connection.connect().set_policy(written), as_json)


@app.command("shadow", cls=Verb, help="Let another policy say what it would have done; 'off' ends that.")
def shadow(
    written: str = typer.Argument(
        None,
        metavar="POLICY",
        help="A name, 'NAME(option=value,…)', or off.",
        autocompletion=completion.shadows,
    ),
    off: bool = typer.Option(False, "--off", help="No shadow any more."),
    as_json: bool = options.AS_JSON,
) -> None:
    """Sets the shadow policy, or ends it."""
    if off == (written is not None):
        raise ElastaneError("say either a policy or off: elastane policy shadow tiresias")
    _print(connection.connect().set_shadow(None if written == "off" else written), as_json)


def _print(info: PolicyInfo, as_json: bool) -> None:
    if as_json:
        typer.echo(terminal.document(info))
        return
    how = "on events" if info.period_s is None else f"every {duration(info.period_s)}"
    took = "" if info.last_ms is None else f", the last in {times.amount(info.last_ms)} ms"
    title = f" ({info.title})" if info.title else ""
    typer.echo(terminal.clean(f"policy {info.policy}{title}"))
    typer.echo(f"  decides {how}: {times.counted(info.decisions, 'decision')}{took}")
    if info.problem:
        typer.echo(terminal.clean(f"  problem: {info.problem}"))
    if info.shadow is not None:
        last = f"; last: {info.shadow_last}" if info.shadow_last else ""
        differs = f"{info.shadow_differs:,} of {times.counted(info.shadow_decisions, 'decision')}"
        typer.echo(terminal.clean(f"  shadow {info.shadow}: would have done otherwise in {differs}{last}"))
