"""Job specifications, their validation, and the life of a job.

Importing it is cheap: pydantic comes with the first name that needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastane.lazy import lazy_names

if TYPE_CHECKING:
    from elastane.jobs.kinds import JobClass, Kind
    from elastane.jobs.loading import dump_json, dump_yaml, load_spec, parse_spec
    from elastane.jobs.parts import BatchRange, Checkpoint, DataSet, Demand, ServerRange, Target, WorkerRange
    from elastane.jobs.problems import Problem, SpecError
    from elastane.jobs.spec import JobSpec
    from elastane.jobs.states import Event, InvalidTransition, State, Transition, advance
    from elastane.jobs.value import Constant, Linear, Sigmoid, Step, Utility

_HOME = {
    "BatchRange": "parts",
    "Checkpoint": "parts",
    "Constant": "value",
    "DataSet": "parts",
    "Demand": "parts",
    "Event": "states",
    "InvalidTransition": "states",
    "JobClass": "kinds",
    "JobSpec": "spec",
    "Kind": "kinds",
    "Linear": "value",
    "Problem": "problems",
    "ServerRange": "parts",
    "Sigmoid": "value",
    "SpecError": "problems",
    "State": "states",
    "Step": "value",
    "Target": "parts",
    "Transition": "states",
    "Utility": "value",
    "WorkerRange": "parts",
    "advance": "states",
    "dump_json": "loading",
    "dump_yaml": "loading",
    "load_spec": "loading",
    "parse_spec": "loading",
}

__all__ = [
    "BatchRange",
    "Checkpoint",
    "Constant",
    "DataSet",
    "Demand",
    "Event",
    "InvalidTransition",
    "JobClass",
    "JobSpec",
    "Kind",
    "Linear",
    "Problem",
    "ServerRange",
    "Sigmoid",
    "SpecError",
    "State",
    "Step",
    "Target",
    "Transition",
    "Utility",
    "WorkerRange",
    "advance",
    "dump_json",
    "dump_yaml",
    "load_spec",
    "parse_spec",
]

__getattr__ = lazy_names(__name__, _HOME)
