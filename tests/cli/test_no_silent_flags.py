"""No flag is accepted and ignored: every verb reads its parameters, and the values that carry them are read, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest
import typer

from elastane.cli import up_down
from elastane.cli.live import spec_from_flags
from elastane.cli.main import app
from elastane.service import daemon, home
from helpers.names_read import attributes_read, unread_parameters

CARRIED_OUT_BY_ITS_CALLBACK = {("callback", "version")}
"""Flags whose callback ends the program before the verb's own body begins."""


def verbs(group: typer.Typer, *words: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every verb's words and its function, those of groups included."""
    if group.registered_callback is not None and group.registered_callback.callback is not None:
        yield " ".join((*words, "callback")), group.registered_callback.callback
    for command in group.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        yield " ".join((*words, name)), command.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from verbs(inner.typer_instance, *words, inner.name or "")


VERBS = dict(verbs(app))


def test_the_verbs_are_found() -> None:
    assert {"submit", "up", "queue", "token new", "policy shadow", "sim"} <= VERBS.keys()


@pytest.mark.parametrize("words", VERBS)
def test_every_verb_reads_what_it_takes(words: str) -> None:
    unread = {
        name for name in unread_parameters(VERBS[words]) if (words, name) not in CARRIED_OUT_BY_ITS_CALLBACK
    }
    assert not unread, f"elastane {words} accepts and ignores {', '.join(sorted(unread))}"


def test_what_submit_is_told_gets_into_the_spec() -> None:
    read = attributes_read(spec_from_flags._plain, "flags") | attributes_read(spec_from_flags._merged, "flags")
    assert {field.name for field in fields(spec_from_flags.Flags)} == read


def test_what_up_is_told_reaches_the_daemon_and_is_said_again_when_it_detaches() -> None:
    options = {field.name for field in fields(home.UpOptions)}
    in_front = set().union(
        *(attributes_read(f, "options") for f in (daemon.run, daemon._listening, daemon._api, daemon._machines))
    )
    assert options - in_front == set()
    assert options - attributes_read(up_down._again, "options") == set()


def test_a_flag_that_nothing_reads_would_be_found() -> None:
    def verb(wanted: int, ignored: bool = False) -> None:
        """Says ``ignored`` here only."""
        typer.echo(str(wanted))

    assert unread_parameters(verb) == {"ignored"}
