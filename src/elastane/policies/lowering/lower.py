"""Lowers a plan, at whatever level of detail, to grants that are safe to apply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from elastane.cluster import Grant
from elastane.policies.lowering.guard import guard
from elastane.policies.lowering.order import place_order
from elastane.policies.lowering.shares import realise
from elastane.policies.lowering.wants import place_wants
from elastane.policies.plan import Exact, Order, Plan, Shares
from elastane.policies.view import View

UNEXPLAINED = "its policy left it out of the plan"
"""The reason given for a waiting job when neither the policy nor lowering gives one."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """The grants to make, and why each job without a grant has none.

    ``refused`` names the changes that the guard did not let pass; a sound policy leaves it empty.
    """

    grants: dict[str, Grant]
    waiting: dict[str, str]
    refused: dict[str, str] = field(default_factory=dict)


def lower(plan: Plan, view: View) -> Lowered:
    """Lays a plan out on nodes and guards it; explanations of the policy win over generic ones."""
    reasons: dict[str, str] = {}
    safe, refused = guard(_lay_out(plan, view, reasons), view)
    reasons.update(refused)
    reasons.update((job_id, why) for job_id, why in plan.explain.items() if why)
    waiting = {job_id: reasons.get(job_id, UNEXPLAINED) for job_id in view.jobs if job_id not in safe}
    return Lowered(safe, waiting, refused)


def _lay_out(plan: Plan, view: View, reasons: dict[str, str]) -> Mapping[str, Grant]:
    """Returns the grants that the plan asks for, before the guard."""
    intent = plan.intent
    if isinstance(intent, Exact):
        return intent.grants
    if isinstance(intent, Order):
        return place_order(intent, view, reasons)
    wants = realise(intent, view, reasons) if isinstance(intent, Shares) else intent
    return place_wants(wants.want, view, reasons)
