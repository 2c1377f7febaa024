"""The only process that imports Ray: it keeps the pilots that are wished for, and tells what it sees.

Ray ends a driver's whole process a minute after its head has gone, so the control plane must not be one.  Nothing
depends on this process: when it dies, pilots and nodes go on, and the next warden finds them by name.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, Any

from elastane.engines.ray.fleet import PREFIX, Seen, Start, There, moves, pool_of, seen, unlike_others
from elastane.engines.ray.messages import TO_WARDEN, FromWarden, RayNode, WardenProblem, WardenState, Wish
from elastane.train.coordinator.wire import encode_message

LOOK_S = 2.0
_ANSWER_S = 0.2


@dataclass(frozen=True, slots=True)
class Address:
    """Which cluster a warden belongs to."""

    ray: str
    namespace: str

    def to_json(self) -> str:
        """Returns it as a word of a command line."""
        return json.dumps([self.ray, self.namespace])


class Warden:
    """The pilots of one cluster, as Ray's driver sees them."""

    def __init__(self, ray: Any, namespace: str) -> None:
        """``ray`` is the module, connected."""
        from elastane.engines.ray.pilot import Pilot

        self._ray, self._namespace = ray, namespace
        self._actor = ray.remote(Pilot)
        self._handles: dict[str, Any] = {}
        self._asked: dict[str, Any] = {}
        self._places: dict[str, str] = {}
        """Ids of nodes, by pilot, as far as pilots have told."""
        self._called: dict[str, str] = {}
        """Names of nodes, likewise."""

    def look(self, wish: Wish | None) -> WardenState:
        """Bring about what is wished for, and return what there is."""
        nodes = [seen(node) for node in self._ray.nodes() if node.get("Alive")]
        pilots = self._pilots(nodes)
        if wish is not None:
            found = moves(nodes, pilots, wish)
            for name in found.end:
                self._end(name)
            for start in found.start:
                self._start(start, wish, nodes)
            pilots = self._pilots(nodes)
        return _state(nodes, pilots, self._ray.__version__)

    def _pilots(self, nodes: Iterable[Seen]) -> list[There]:
        """Those that exist, also of earlier wardens, and where they are."""
        listed = self._ray.util.list_named_actors(all_namespaces=True)
        names = {each["name"] for each in listed if each["namespace"] == self._namespace}
        for name in [name for name in self._handles if name not in names]:
            self._forget(name)
        for name in sorted(names - self._handles.keys()):
            if name.startswith(PREFIX):
                with contextlib.suppress(ValueError):  # it has just gone
                    self._handles[name] = self._ray.get_actor(name, self._namespace)
        places = {node.id for node in nodes}
        return [
            There(name, place, self._called.get(name, "") if place else "")
            for name in self._handles
            for place in [self._place(name, places)]
        ]

    def _place(self, name: str, nodes: set[str]) -> str:
        """The id of a pilot's node; a pilot of a pool is asked, which never keeps us waiting for one that has none."""
        if not pool_of(name):
            return name.removeprefix(PREFIX)
        if self._places.get(name) not in nodes and name not in self._asked:
            self._asked[name] = self._handles[name].where.remote()
        if name in self._asked:
            ready, _ = self._ray.wait([self._asked[name]], timeout=_ANSWER_S)
            if ready:
                answer = self._asked.pop(name)
                with contextlib.suppress(self._ray.exceptions.RayError):
                    called, place = self._ray.get(answer)
                    self._called[name], self._places[name] = str(called), str(place)
        place = self._places.get(name, "")
        return place if place in nodes else ""

    def _start(self, start: Start, wish: Wish, nodes: Iterable[Seen]) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        options: dict[str, Any] = {
            "name": start.name,
            "namespace": self._namespace,
            "lifetime": "detached",
            "get_if_exists": True,
            "max_restarts": -1,
            "max_task_retries": 0,
        }
        if start.node is not None:
            options |= {"num_cpus": start.node.cpus, "num_gpus": start.node.gpus}
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(start.node.id, soft=False)
        elif start.wish is not None:
            options |= {"num_cpus": start.wish.cpus, "num_gpus": start.wish.gpus}
            if start.wish.labels:
                options["label_selector"] = dict(start.wish.labels)
        words = [wish.join, "--once", *([f"--pool={start.pool}"] if start.pool else [])]
        name = unlike_others(start.node, nodes) if start.node is not None else ""
        self._handles[start.name] = self._actor.options(**options).remote(words, name)

    def _end(self, name: str) -> None:
        with contextlib.suppress(Exception):  # it ends by itself, or the next look tries again
            self._ray.kill(self._handles[name])
        self._forget(name)

    def _forget(self, name: str) -> None:
        for known in (self._handles, self._asked, self._places, self._called):
            known.pop(name, None)


def _state(nodes: Iterable[Seen], pilots: Iterable[There], version: str) -> WardenState:
    holds = {pilot.node: pilot for pilot in pilots if pilot.node}
    waiting: dict[str, int] = {}
    for pilot in pilots:
        if not pilot.node:
            waiting[pool_of(pilot.name)] = waiting.get(pool_of(pilot.name), 0) + 1
    told = (_told(node, holds.get(node.id)) for node in sorted(nodes, key=lambda node: node.id))
    return WardenState(tuple(told), waiting, version)


def _told(n: Seen, pilot: There | None) -> RayNode:
    """A node as we tell of it."""
    if pilot is None:
        return RayNode(n.id, n.name, n.address, n.gpus, n.cpus)
    return RayNode(n.id, pilot.called or n.name, n.address, n.gpus, n.cpus, pool_of(pilot.name), pilot=True)


def serve(address: Address, wishes: IO[bytes], answers: IO[bytes]) -> None:
    """Until the control plane closes our input, or Ray has gone."""
    import ray

    try:
        ray.init(
            address=address.ray, namespace=address.namespace, log_to_driver=False, logging_level=logging.ERROR
        )
    except Exception as error:
        _tell(answers, _refusal(error, address))
        return
    inbox: queue.SimpleQueue[Wish | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(wishes, inbox), daemon=True).start()
    warden, wish = Warden(ray, address.namespace), None
    while True:
        try:
            _tell(answers, warden.look(wish))
        except Exception as error:
            _tell(answers, WardenProblem(f"Ray does not answer as it should ({_first_line(error)})"))
            return
        with contextlib.suppress(queue.Empty):
            wish = inbox.get(timeout=LOOK_S)
            while not inbox.empty():
                wish = inbox.get()
            if wish is None:
                return


def _read(wishes: IO[bytes], inbox: queue.SimpleQueue[Wish | None]) -> None:
    for wish in TO_WARDEN.decode_known(iter(wishes.readline, b"")):
        inbox.put(wish)
    inbox.put(None)


def _tell(answers: IO[bytes], message: FromWarden) -> None:
    answers.write(encode_message(message))
    answers.flush()


def _refusal(error: Exception, address: Address) -> WardenProblem:
    """Why there is no way to Ray, and what helps."""
    text = f"{type(error).__name__}: {error}"
    if "401" in text or "authentication" in text.lower() or "token" in text.lower():
        remedy = "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH to the token of that cluster"
        return WardenProblem(f"Ray at {address.ray} does not accept our token; {remedy}", lasting=True)
    if "version" in text.lower() and "mismatch" in text.lower():
        return WardenProblem(f"Ray at {address.ray}: {_first_line(error)}", lasting=True)
    return WardenProblem(f"no Ray cluster answers at {address.ray} ({_first_line(error)})")


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]


def main() -> None:
    """Serve the control plane that started us."""
    ray, namespace = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever Ray prints goes to the log
    began_s = time.monotonic()
    serve(Address(ray, namespace), sys.stdin.buffer, answers)
    print(f"elastane: the warden ends after {time.monotonic() - began_s:.0f} s", file=sys.stderr)  # noqa: T201
    os._exit(0)  # Ray's own farewell may take long where its head has gone


if __name__ == "__main__":
    main()
