"""Job specifications, their validation, and the life of a job."""

from elastane.jobs.loading import dump_json, dump_yaml, load_spec, parse_spec
from elastane.jobs.parts import BatchRange, Checkpoint, DataSet, Demand, ServerRange, Target, WorkerRange
from elastane.jobs.problems import Problem, SpecError
from elastane.jobs.spec import JobClass, JobSpec, Kind
from elastane.jobs.states import Event, InvalidTransition, State, Transition, advance
from elastane.jobs.value import Constant, Linear, Sigmoid, Step, Utility

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
