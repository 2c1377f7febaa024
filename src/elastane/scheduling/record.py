"""Converts decisions to JSON values, and their views back, so that they can be made again later, byte for byte.

Only what a policy may have seen is written down: facts it did not declare are left out, as they were masked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any

from elastane.cluster import Grant, Node
from elastane.codec import decoded, encoded
from elastane.models.estimate import Estimate, Provenance
from elastane.models.goodput import BatchLimits, GoodputModel
from elastane.models.throughput import ThroughputParams
from elastane.policies.contract import Policy
from elastane.policies.view import Ability, Facts, Info, JobState, JobView, Ledger, Request, Tenant, View, has
from elastane.scheduling.decide import Decision, decide


def view_to_json(view: View) -> dict[str, Any]:
    """Converts everything the decision may depend on to JSON values."""
    return {
        "now_s": view.now_s,
        "trigger": view.trigger,
        "seed": view.seed,
        "visible": view.visible.value,
        "min_run_s": view.min_run_s,
        "memory": view.memory,
        "history": list(view.finished_service_gpu_s) if has(view.visible, Info.HISTORY) else [],
        "tenants": {name: encoded(tenant) for name, tenant in view.tenants.items()},
        "nodes": {name: _node_to_json(node) for name, node in view.nodes.items()},
        "jobs": [_job_to_json(job) for job in view.jobs.values()],
        **({"missing": list(view.missing)} if view.missing else {}),
    }


def view_from_json(values: Mapping[str, Any]) -> View:
    """The view that ``view_to_json`` wrote down."""
    visible = Info(values["visible"])
    jobs = [_job_from_json(job, visible) for job in values["jobs"]]
    return View(
        now_s=float(values["now_s"]),
        jobs={job.id: job for job in jobs},
        nodes={name: decoded(Node, node) for name, node in values["nodes"].items()},
        trigger=values["trigger"],
        tenants={name: decoded(Tenant, tenant) for name, tenant in values["tenants"].items()},
        memory=values["memory"],
        seed=int(values["seed"]),
        finished_service_gpu_s=tuple(values["history"]),
        visible=visible,
        min_run_s=float(values["min_run_s"]),
        missing=tuple(values.get("missing", ())),
    )


def decision_to_json(decision: Decision) -> dict[str, Any]:
    """What a decision came to.  ``refused``: changes that the guard stopped; verdicts if there are any."""
    verdicts = {
        "turned_away": dict(decision.refused),
        "ended": dict(decision.ended),
        "downgraded": list(decision.downgraded),
    }
    return {
        "grants": {job: encoded(grant) for job, grant in decision.grants.items()},
        "waiting": dict(decision.waiting),
        "refused": dict(decision.lowered.refused),
        # Decisions recorded before verdicts were have none of these, and can be made again all the same.
        **{name: jobs for name, jobs in verdicts.items() if jobs},
    }


def decide_again(policy: Policy, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Ask a policy about a recorded view; what it comes to, as it would have been written down."""
    return plain(decision_to_json(decide(policy, view_from_json(recorded))))


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values as they come back from a JSON file, where tuples are lists."""
    copied: dict[str, Any] = json.loads(json.dumps(values))
    return copied


_APART = {"facts", "visible", "request", "grant", "abilities"}
_AS_IT_IS = tuple(each.name for each in fields(JobView) if each.name not in _APART)


@lru_cache(maxsize=4096)
def _node_to_json(node: Node) -> Any:
    """Nodes are the same in most decisions, and there may be a thousand of them; whoever gets it changes nothing."""
    return encoded(node)


@lru_cache(maxsize=16384)
def _request_to_json(request: Request) -> Any:
    return encoded(request)


@lru_cache(maxsize=16384)
def _grant_to_json(grant: Grant) -> Any:
    return encoded(grant)


@lru_cache(maxsize=16384)
def _theta_to_json(theta: ThroughputParams[float]) -> Any:
    return encoded(theta)


@lru_cache(maxsize=16384)
def _limits_to_json(limits: BatchLimits) -> Any:
    return encoded(limits)


def _job_to_json(job: JobView) -> dict[str, Any]:
    facts, seen = job.facts, job.visible
    return {
        **{name: encoded(getattr(job, name)) for name in _AS_IT_IS},
        "visible": Info.NONE.value,
        "request": _request_to_json(job.request),
        "grant": _grant_to_json(job.grant) if job.grant is not None else None,
        "abilities": job.abilities.value,
        "facts": {
            "remaining": encoded(facts.remaining) if has(seen, Info.REMAINING) else None,
            "declared_s": facts.declared_s if has(seen, Info.REMAINING) else None,
            "speed": _speed_to_json(facts.speed) if has(seen, Info.SPEED) else None,
            "losses": encoded(list(facts.losses)) if has(seen, Info.LOSSES) else [],
            "deadline_s": facts.deadline_s if has(seen, Info.DEADLINE) else None,
            "skew": facts.skew if has(seen, Info.SKEW) else None,
        },
    }


def _job_from_json(values: Mapping[str, Any], visible: Info) -> JobView:
    facts = values["facts"]
    plain_fields = ("id", "submit_s", "app", "tenant", "klass", "weight", "priority", "restart_s")
    return JobView(
        **{name: values[name] for name in plain_fields},
        request=decoded(Request, values["request"]),
        abilities=Ability(values["abilities"]),
        state=JobState(values["state"]),
        grant=decoded(Grant, values["grant"]) if values["grant"] is not None else None,
        ledger=decoded(Ledger, values["ledger"]),
        facts=Facts(
            remaining=decoded(Estimate, facts["remaining"]) if facts["remaining"] is not None else None,
            speed=_speed_from_json(facts["speed"]),
            losses=tuple((float(work), float(loss)) for work, loss in facts["losses"]),
            deadline_s=facts["deadline_s"],
            skew=facts["skew"],
            declared_s=facts["declared_s"],
        ),
        visible=visible,
    )


def _speed_to_json(speed: object) -> dict[str, Any] | None:
    if speed is None:
        return None
    if not isinstance(speed, GoodputModel):
        raise TypeError(f"a {type(speed).__name__} cannot be written down")
    return {
        "params": {kind: _theta_to_json(theta) for kind, theta in speed.params.items()},
        "noise": encoded(speed.noise),
        "limits": _limits_to_json(speed.limits),
        "max_profiled": speed.max_profiled,
        "source": speed.source.value,
        "relative_error": encoded(speed.relative_error),
        "observations": speed.observations,
        "widest": speed.widest,
        "profiled": dict(speed.profiled),
    }


def _speed_from_json(values: Mapping[str, Any] | None) -> GoodputModel | None:
    if values is None:
        return None
    return GoodputModel(
        params={kind: ThroughputParams(**theta) for kind, theta in values["params"].items()},
        noise=float(values["noise"]),
        limits=decoded(BatchLimits, values["limits"]),
        max_profiled=int(values["max_profiled"]),
        source=Provenance(values["source"]),
        relative_error=float(values["relative_error"]),
        observations=int(values["observations"]),
        widest=int(values.get("widest", 0)),
        profiled={kind: int(most) for kind, most in values.get("profiled", {}).items()},
    )
