"""Policies as users write them: ``pollux`` or ``pollux(search=genetic,p=-1)``."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from typing import get_args, get_type_hints

from elastane.errors import ElastaneError
from elastane.policies.contract import Policy
from elastane.suggest import did_you_mean

_WRITTEN = re.compile(r"^\s*([\w.-]+)\s*(?:\((.*)\))?\s*$", re.DOTALL)


class OptionError(ElastaneError):
    """A policy option that is unknown or has a value it cannot have."""


def split_policies(text: str) -> list[str]:
    """``a,b(x=1,y=2)`` → ``["a", "b(x=1,y=2)"]``: commas inside parentheses do not separate."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    if depth != 0:
        raise OptionError(f"parentheses do not match in policy list {text!r}")
    return [part for part in parts if part]


def split_written(text: str) -> tuple[str, dict[str, str]]:
    """Splits a written policy into its name and its options."""
    match = _WRITTEN.match(text)
    if match is None:
        raise OptionError(f"a policy is written NAME or NAME(option=value,…), not {text!r}")
    options: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in (match.group(2) or "").split(","))):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise OptionError(f"policy {match.group(1)}: option {item!r} needs a value, as in {item}=…")
        if name in options:
            raise OptionError(f"policy {match.group(1)}: option {name} is given twice")
        options[name] = value
    return match.group(1), options


def configure(policy: type[Policy], options: dict[str, str]) -> Policy:
    """Makes the policy with these options, each converted to the type of its field."""
    known = {field.name for field in fields(policy)}
    hints = get_type_hints(policy)
    values: dict[str, object] = {}
    for name, text in options.items():
        if name not in known:
            listing = ", ".join(sorted(known)) or "none"
            hint = did_you_mean(name, known)
            raise OptionError(f"policy {policy.name} has no option {name!r}{hint} (options: {listing})")
        values[name] = _convert(policy.name, name, text, hints[name])
    return policy(**values)


def _convert(policy: str, name: str, text: str, kind: object) -> object:
    choices = get_args(kind)
    if type(None) in choices:  # such as ``float | None``
        if text.lower() == "none":
            return None
        kind = next(choice for choice in choices if choice is not type(None))
    if kind is bool:
        if text.lower() in ("true", "yes", "on", "1"):
            return True
        if text.lower() in ("false", "no", "off", "0"):
            return False
        raise OptionError(f"policy {policy}: option {name} is true or false, not {text!r}")
    if kind in (int, float):
        try:
            number = int(text) if kind is int else float(text)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            what = "a whole number" if kind is int else "a number"
            raise OptionError(f"policy {policy}: option {name} is {what}, not {text!r}")
        return number
    return text
