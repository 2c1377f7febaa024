"""Turns pydantic's errors into problems: path, value given, what is expected, the nearest name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from elastane.jobs.problems import Problem, shown
from elastane.jobs.sections import TAG, Place, locate
from elastane.suggest import did_you_mean

_EXPECTED: Mapping[str, str] = {
    "bool_type": "true or false",
    "dict_type": "a section of fields",
    "enum": "{expected}",
    "expected": "{what}",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "more than {gt:,.12g}",
    "greater_than_equal": "{ge:,.12g} or more",
    "int_type": "a whole number",
    "invalid_key": "a field name",
    "less_than_equal": "{le:,.12g} or less",
    "model_attributes_type": "a section of fields",
    "model_type": "a section of fields",
    "string_pattern_mismatch": "letters, digits, '.', '_' and '-', beginning with a letter or digit",
    "string_too_long": "at most {max_length} characters",
    "string_too_short": "some text",
    "string_type": "text (put it in quotes if it looks like something else)",
    "too_long": "at most {max_length} entries",
    "too_short": "at least {min_length} entry",
    "tuple_type": "a list",
    "union_tag_invalid": "{expected_tags}",
}


def problems(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Every error of one validation of ``model``, in the order of its fields."""
    return [_problem(details, locate(details["loc"], model)) for details in error.errors(include_url=False)]


def _problem(details: ErrorDetails, place: Place) -> Problem:
    path = place.path
    match details["type"]:
        case "extra_forbidden":
            return Problem(path, _unknown_field(place))
        case "missing":
            return Problem(path, f"{path} is missing: {place.description}")
        case "conflict":
            return Problem(path, f"{path}: {details['msg']}" if path else details["msg"])
        case "union_tag_not_found":
            return Problem(path, f"{path}.{TAG} is missing; expected one of {', '.join(place.tags)}")
        case "union_tag_invalid":
            return _wrong_value(f"{path}.{TAG}", details["ctx"]["tag"], details)
        case _:
            return _wrong_value(path or "job spec", details["input"], details)


def _wrong_value(path: str, given: object, details: ErrorDetails) -> Problem:
    template = _EXPECTED.get(details["type"])
    wanted = template.format(**details.get("ctx", {})) if template else details["msg"]
    text = f"{path}: got {shown(given)}; expected {wanted}"
    if details["type"] in ("enum", "union_tag_invalid"):
        text += did_you_mean(str(given), re.findall(r"'([^']*)'", wanted))
    return Problem(path, text)


def _unknown_field(place: Place) -> str:
    where = ".".join(place.parts[:-1]) or "job spec"
    hint = did_you_mean(place.parts[-1], place.known) or f"; known are {', '.join(place.known)}"
    return f"unknown field {shown(place.parts[-1])} in {where}{hint}"
