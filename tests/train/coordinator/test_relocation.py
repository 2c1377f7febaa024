"""Orders are written in the head's paths and carried out in the node's."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from elastane.train.coordinator.relocation import RELOCATE, THERE, Relocation, port_there, told
from elastane.train.coordinator.script_runner import Order

ORDER = Order(
    worker="w1",
    script="/head/code/train.py",
    arguments=("/head/code/data", "/head/code/more"),
    environment={
        "ELASTANE_RUN": "/head/run",
        "ELASTANE_CHECKPOINTS": "s3://bucket/head/run",
        "ELASTANE_COORDINATOR": "127.0.0.1:5000",
        "MINE": "/head/run",
    },
    log="/head/run/logs/w1.log",
    directory="/head/code",
)
PAIRS = [("/head/run", "/node/run"), ("/head/code", "/node/package"), ("/head/run/logs", "/node/logs")]
TOLD = {RELOCATE: told(PAIRS), "ELASTANE_COORDINATOR": "127.0.0.1:4000", THERE: "4000:5000"}


def test_paths_of_ours_become_the_nodes_and_the_longest_prefix_wins() -> None:
    order = Relocation.of(TOLD).order(ORDER)
    assert order.log == "/node/logs/w1.log"
    assert (order.directory, order.script) == ("/node/package", "/node/package/train.py")
    assert order.arguments == ("/node/package/data", "/head/code/more")
    assert order.environment == {
        "ELASTANE_RUN": "/node/run",
        "ELASTANE_CHECKPOINTS": "s3://bucket/head/run",
        "ELASTANE_COORDINATOR": "127.0.0.1:4000",
        "MINE": "/head/run",
    }


def test_a_module_is_no_path_and_a_program_and_its_script_may_be() -> None:
    here = Relocation.of(TOLD)
    assert here.order(replace(ORDER, script="/head/code", module=True)).script == "/head/code"
    program = ("/head/code/run.sh", "/head/code/x.py", "/head/code/y")
    assert here.order(replace(ORDER, program=program)).program == (
        "/node/package/run.sh",
        "/node/package/x.py",
        "/head/code/y",
    )


def test_without_the_variables_nothing_changes() -> None:
    assert Relocation.of({"ELASTANE_COORDINATOR": "127.0.0.1:4000"}).order(ORDER) is ORDER


@given(st.text(), st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1))))
def test_what_has_no_prefix_of_ours_stays_as_it_is(text: str, pairs: list[tuple[str, str]]) -> None:
    here = Relocation.of({RELOCATE: told(pairs)})
    if not any(text.startswith(head.rstrip("/")) for head, _ in pairs):
        assert here.path(text) == text


def test_a_port_that_is_not_the_tunnels_is_its_own() -> None:
    """A run that a worker starts by itself has a supervisor of its own."""
    assert port_there(TOLD, 4000) == 5000
    assert port_there(TOLD, 4444) == 4444
    assert port_there({THERE: "nonsense"}, 4000) == 4000


def test_folders_of_modules_are_those_of_the_node() -> None:
    here = Relocation((("/head/code", "/node/package"),))
    assert here.environment({"PYTHONPATH": "/head/code/src:/usr/lib:/head/codes", "PATH": "/head/code"}) == {
        "PYTHONPATH": "/node/package/src:/usr/lib:/head/codes",
        "PATH": "/head/code",
    }
