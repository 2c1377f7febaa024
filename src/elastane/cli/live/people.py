"""``elastane user`` and ``elastane token``: who may log in, and with what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import typer

from elastane.cli.live import completion, connection, options, terminal, times
from elastane.cli.live.exit_codes import Verb
from elastane.cli.live.groups import ListByDefault, group
from elastane.errors import ElastaneError

if TYPE_CHECKING:
    from elastane.service.messages import TokenInfo

USER_HELP = "Show, add and remove users."
TOKEN_HELP = "Show, make and revoke tokens, with which users log in."  # noqa: S105

users = group(ListByDefault, USER_HELP)
tokens = group(ListByDefault, TOKEN_HELP)

_USERS = tuple(map(terminal.Column, ("name", "role", "tenant")))
_TOKENS = tuple(map(terminal.Column, ("id", "user", "label", "made", "expires")))


@users.command("list", cls=Verb, help="Show users (the default).")
def list_users(as_json: bool = options.AS_JSON) -> None:
    """Prints the users with their roles and tenants."""
    found = connection.connect().users()
    if as_json:
        typer.echo(terminal.document(found))
    else:
        terminal.print_table(_USERS, [(each.name, each.role, each.tenant) for each in found])


@users.command("add", cls=Verb, help="Add a user.")
def add_user(
    name: str = typer.Argument(metavar="NAME"),
    role: Literal["viewer", "user", "admin"] = typer.Option("user", help="What they may do."),
    tenant: str = typer.Option("default", help="Who pays for their jobs."),
    as_json: bool = options.AS_JSON,
) -> None:
    """Adds a user, who needs a token next."""
    added = connection.connect().add_user(name, role, tenant)
    if as_json:
        typer.echo(terminal.document(added))
        return
    typer.echo(terminal.clean(f"added {added.name} ({added.role}, tenant {added.tenant})"))
    terminal.say(f"next: elastane token new {added.name}")


@users.command("remove", cls=Verb, help="Remove a user.")
def remove_user(name: str = typer.Argument(metavar="NAME"), as_json: bool = options.AS_JSON) -> None:
    """Removes a user together with all tokens."""
    connection.connect().remove_user(name)
    typer.echo(terminal.document({"removed": name}) if as_json else f"removed {terminal.clean(name)}")


@tokens.command("list", cls=Verb, help="Show tokens, without what makes them tokens (the default).")
def list_tokens(
    user: str = typer.Option(None, help="Only those of this user."), as_json: bool = options.AS_JSON
) -> None:
    """Prints tokens without their secrets."""
    found = connection.connect().tokens(user)
    if as_json:
        typer.echo(terminal.document(found))
        return
    now_s = times.now_s()
    rows = [
        (each.id, each.user, each.label, times.ago(each.created_s, now_s), _end(each, now_s)) for each in found
    ]
    terminal.print_table(_TOKENS, rows)


@tokens.command("new", cls=Verb, help="Make a token for a user; it is shown this once.")
def new_token(
    user: str = typer.Argument(None, metavar="USER", help="For whom [default: myself]."),
    label: str = typer.Option("", help="What it is for."),
    expires: str = typer.Option(
        None, help="After which time it ends, as in 30d [default: with your own token]."
    ),
    as_json: bool = options.AS_JSON,
) -> None:
    """Makes a token and prints its secret, this once."""
    lifetime_s = _seconds(expires)
    made = connection.connect().new_token(user, label=label, lifetime_s=lifetime_s)
    if as_json:
        typer.echo(terminal.document(made))
        return
    typer.echo(made.token)
    terminal.say(f"token {made.id} for {made.user}; it is not shown again, so keep it in a safe place")


@tokens.command("revoke", cls=Verb, help="Make a token worthless, by its id.")
def revoke_token(
    id: str = typer.Argument(metavar="TOKEN_ID", autocompletion=completion.tokens),
    as_json: bool = options.AS_JSON,
) -> None:
    """Revokes a token by its id."""
    connection.connect().revoke_token(id)
    typer.echo(terminal.document({"revoked": id}) if as_json else f"revoked {terminal.clean(id)}")


def _seconds(written: str | None) -> float | None:
    from elastane.jobs.units import DURATION

    if written is None:
        return None
    try:
        seconds = DURATION.read(written)
    except ElastaneError as error:
        raise ElastaneError(f"--expires: {error}") from None
    if not seconds:
        raise ElastaneError("--expires: a token that ends at once opens nothing; say for example 30d")
    return seconds


def _end(token: TokenInfo, now_s: float) -> str:
    if token.expires_s is not None and token.expires_s <= now_s:  # and is closed for good soon after
        return "expired"
    if token.revoked:
        return "revoked"
    if token.expires_s is None:
        return "never"
    return times.until(token.expires_s, token.expires_s, now_s)
