"""``make bench-cluster``: machines that die, cables that are pulled, workers that move; ``--only`` chooses.

It drives ``elastane up``, ``elastane node`` and jobs on hosts in a box (``elastane.testing.hosts``), one box per group.
"""

from __future__ import annotations

import sys

from benchmarks.cluster.agents import agents
from benchmarks.cluster.cable import cable
from benchmarks.cluster.killed import killed
from benchmarks.cluster.kills import kills
from benchmarks.cluster.move import move
from benchmarks.cluster.scale import scale
from benchmarks.cluster.spot import spot
from benchmarks.harness import Suite, run
from elastane.testing.hosts import why_not

SUITE = Suite(
    "cluster",
    __doc__,
    {
        "killed": killed,
        "cable": cable,
        "kills": kills,
        "spot": spot,
        "scale": scale,
        "move": move,
        "agents": agents,
    },
)
_ASKED_FOR_HELP = {"-h", "--help"}


def main() -> None:
    """Says what is missing before anything begins: exit code 2."""
    if why_not() and not _ASKED_FOR_HELP & set(sys.argv):
        print(f"bench-cluster: {why_not()}", file=sys.stderr)
        sys.exit(2)
    run(SUITE)


if __name__ == "__main__":
    main()
