"""Offers completions to the shell when the tab key is pressed.  A server that does not answer offers nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from elastane.cli.live import connection
from elastane.errors import ElastaneError


def jobs(incomplete: str) -> list[tuple[str, str]]:
    """Active jobs by id, with their names."""
    return _offer(incomplete, lambda: ((job.id, job.name) for job in connection.connect().jobs()))


def nodes(incomplete: str) -> list[tuple[str, str]]:
    """Completes ids of nodes, with their states."""
    return _offer(incomplete, lambda: ((node.id, node.state) for node in connection.connect().nodes()))


def tokens(incomplete: str) -> list[tuple[str, str]]:
    """Tokens that still open something, by id, with whose they are."""
    return _offer(
        incomplete,
        lambda: (
            (each.id, f"{each.user} {each.label}".strip())
            for each in connection.connect().tokens(None)
            if not each.revoked
        ),
    )


def policies(incomplete: str) -> list[tuple[str, str]]:
    """Policies that can decide on a live cluster."""
    from elastane.policies.registry import live_names, policy_class

    return _offer(incomplete, lambda: ((name, policy_class(name).title) for name in live_names()))


def shadows(incomplete: str) -> list[tuple[str, str]]:
    """The same, and how to have none."""
    return [*policies(incomplete), *([("off", "no shadow any more")] if "off".startswith(incomplete) else [])]


def _offer(incomplete: str, ask: Callable[[], Iterable[tuple[str, str]]]) -> list[tuple[str, str]]:
    try:
        return [(word, help_) for word, help_ in ask() if word.startswith(incomplete)]
    except (ElastaneError, OSError):
        return []
