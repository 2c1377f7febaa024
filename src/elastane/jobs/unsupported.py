"""Refuses what a spec may say and nothing would act upon, so that no option is silent.

The fields stay in the model: a spec that was stored earlier has to be read, and a refusal can say why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from elastane.jobs.declared import VARIABLE
from elastane.jobs.loading import parse_spec
from elastane.jobs.problems import Problem, SpecError
from elastane.jobs.spec import JobSpec
from elastane.kit import storage_urls

UNSUPPORTED: Mapping[str, str] = {
    "value": "no policy of the live system weighs what a completion is worth",
    "resources.bandwidth": "no node says what its network can carry",
    "workers.resources.bandwidth": "no node says what its network can carry",
    "data": "bringing data to a job's nodes is up to its script",
    "servers": "parameter servers are known to policies and the simulator only",
    "batch.per_gpu_min": "how many samples go through an accelerator at once is found by measuring",
    "batch.per_gpu_max": "how many samples fit on an accelerator is found by trying",
    "batch.accumulation": "whether gradients are summed over several passes is found by measuring",
    "checkpoint.path": "a resizable script is started where it runs and finds its checkpoints by itself",
    "checkpoint.keep": "the training library always keeps two checkpoints",
}
"""Fields by their path in a spec, and why each is refused."""

_RESERVED: Mapping[str, str] = {VARIABLE: "epochs, target and batch", storage_urls.VARIABLE: "checkpoints"}


def submitted_spec(values: object, source: str = "") -> JobSpec:
    """The job spec in plain values, as ``parse_spec`` reads it, all of which will be acted upon."""
    spec = parse_spec(values, source)
    problems = [*_unsupported(spec), *_reserved(spec)]
    if problems:
        raise SpecError(problems, source)
    return spec


def _unsupported(spec: JobSpec) -> Iterator[Problem]:
    for path, reason in UNSUPPORTED.items():
        if _is_set(spec, path):
            yield Problem(path, f"{path} is not supported yet: {reason}")


def _is_set(section: BaseModel, path: str) -> bool:
    """Tell whether the field differs from what it is by default."""
    name, _, rest = path.partition(".")
    value = getattr(section, name)
    if rest:
        return isinstance(value, BaseModel) and _is_set(value, rest)
    default = type(section).model_fields[name].get_default(call_default_factory=True)
    return bool(value != default)


def _reserved(spec: JobSpec) -> Iterator[Problem]:
    for field, variables in (("env", spec.env), ("exported", spec.exported)):
        for name, source in _RESERVED.items():
            if name in variables:
                path = f"{field}.{name}"
                yield Problem(path, f"{path}: Elastane sets this variable itself, from {source}; leave it out")
