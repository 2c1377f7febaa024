"""``make chaos`` and ``make bench-live``: the live system under kills, load and damage; ``--only`` chooses."""

from __future__ import annotations

from benchmarks.harness import Bench, Suite, run
from benchmarks.live.agents import agents
from benchmarks.live.control import control
from benchmarks.live.fidelity import fidelity
from benchmarks.live.hostile import hostile
from benchmarks.live.rounds import rounds
from benchmarks.live.specs import specs
from benchmarks.live.store import store
from benchmarks.live.submissions import submissions


def _rounds(bench: Bench) -> None:
    rounds(bench.figures)


def _hostile(bench: Bench) -> None:
    hostile(bench, names=bench.cases)


SUITE = Suite(
    "live",
    __doc__,
    {
        "rounds": _rounds,
        "control": control,
        "agents": agents,
        "submissions": submissions,
        "specs": specs,
        "fidelity": fidelity,
        "store": store,
        "hostile": _hostile,
    },
    whole="live-all",
    cases="poison",
)

if __name__ == "__main__":
    run(SUITE)
