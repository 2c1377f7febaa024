"""How kinds of jobs are run by engines, and what stored jobs are called."""

from __future__ import annotations

import pytest

from elastane.jobs.kinds import Kind
from elastane.jobs.states import State
from elastane.service.run_kinds import is_command, kind_of, run_kind
from elastane.service.store.rows import JobRow


def row(run: str, asked: str = "auto") -> JobRow:
    return JobRow(
        number=1,
        name="digits",
        owner="ann",
        tenant="default",
        spec={"kind": asked},
        directory="/tmp",
        submitted_s=0.0,
        state=State.QUEUED,
        kind=run,
    )


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.AUTO])
def test_a_job_is_called_what_its_owner_called_it(kind: Kind) -> None:
    assert kind_of(row(run_kind(kind), kind.value)) is kind


@pytest.mark.parametrize(
    ("run", "kind"), [("adaptive", Kind.ADAPTIVE), ("resizable", Kind.RESIZABLE), ("rigid", Kind.COMMAND)]
)
def test_a_job_whose_kind_was_found_out_is_never_rigid(run: str, kind: Kind) -> None:
    assert kind_of(row(run)) is kind
    assert run_kind(Kind.AUTO) == "auto"


def test_what_earlier_versions_stored_as_rigid_is_a_command() -> None:
    assert kind_of(row("rigid", "rigid")) is Kind.COMMAND
    assert is_command(row("rigid", "rigid"))
    assert not is_command(row("resizable", "rigid"))
