"""Completes a spec with what an engine found in its command, and warns its owner of what follows from that."""

from __future__ import annotations

import json

from elastane.engines.contract import Examined
from elastane.jobs import JobSpec, parse_spec
from elastane.jobs.kinds import ONE_SIZE, Kind
from elastane.jobs.loading import dump_json
from elastane.jobs.parts import WorkerRange
from elastane.service.run_kinds import COMMAND_RUN


def as_looked_at(spec: JobSpec, looked: Examined) -> tuple[JobSpec, tuple[str, ...]]:
    """The spec with what its command says and with the interpreter that was chosen; and warnings."""
    changes: dict[str, object] = {} if looked.python == spec.python else {"python": looked.python}
    warnings = list(looked.notes)
    if looked.workers is not None:
        low, high = looked.workers
        if "workers" in spec.model_fields_set:
            said = f"{low}" if low == high else f"{low} to {high}"
            warnings.append(
                f"the command asks for {said} workers, the job for {_words(spec)}: that is what holds"
            )
        else:
            if spec.kind in ONE_SIZE and low != high:
                what = "a command" if spec.kind is Kind.COMMAND else "a rigid job"
                warnings.append(f"the command asks for {low} to {high} workers, {what} has one size: {low}")
                high = low
            changes["workers"] = WorkerRange.model_construct(
                min=low, max=high, resources=spec.workers.resources
            )
    changed = _checked(spec.model_copy(update=changes)) if changes else spec
    return changed, (*warnings, *_doubts(changed, looked), *_unread(changed, looked))


def _checked(changed: JobSpec) -> JobSpec:
    """As it will be read from the store: what a command says must be as possible as what an owner writes."""
    return parse_spec(json.loads(dump_json(changed)))


def _doubts(spec: JobSpec, looked: Examined) -> list[str]:
    """Why it is not what its owner may have hoped for; that a job is a command is no news by itself."""
    if looked.kind != COMMAND_RUN:
        return []
    if spec.kind is Kind.AUTO and spec.workers.max not in (None, spec.workers.min):
        return [f"{_words(spec)} workers are not possible, it keeps {spec.workers.min}: {looked.why}"]
    return [looked.why] if looked.mendable else []


def _unread(spec: JobSpec, looked: Examined) -> list[str]:
    """Say which wishes only the training library can fulfil, where a script does not seem to use it."""
    adaptive = looked.kind == Kind.ADAPTIVE
    unread = ("epochs", "target", "batch") if not (adaptive and looked.heeds) else ()
    wishes = [
        name for name in (*unread, *(() if adaptive else ("checkpoints",))) if getattr(spec, name) is not None
    ]
    if not wishes:
        return []
    this = looked.kind if not adaptive else "adaptive by elastane.compat"
    return [f"{_listed(wishes)}: only scripts that use elastane.train go by that; this one is {this}"]


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _words(spec: JobSpec) -> str:
    low, high = spec.workers.min, spec.workers.max
    if high is None:
        return f"{low} or more"
    return f"{low}" if low == high else f"{low} to {high}"
