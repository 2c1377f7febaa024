"""One table says who may call which route.  A route that is not in it cannot be built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from elastane.service.messages import Role


class Reach(Enum):
    """What a route is about, and how near the asker must be to it.  For an admin everything is near."""

    ANYTHING = "anything"  # not about one job; what is shown is cut to the asker's tenant where it has one
    TENANT = "tenant"  # about a job of the asker's tenant; any other does not exist
    OWN = "own"  # about a job of the asker's tenant that the asker owns


@dataclass(frozen=True, slots=True)
class Rule:
    """The least role that may call a route (None: anyone, without a token), and what it may reach."""

    least: Role | None
    reach: Reach = Reach.ANYTHING


PERMISSIONS: Mapping[str, Rule] = {
    "health": Rule(None),
    "metrics": Rule("viewer"),
    "openapi": Rule("viewer"),
    "info": Rule("viewer"),
    "whoami": Rule("viewer"),
    "events": Rule("viewer"),
    "list_jobs": Rule("viewer"),
    "show_job": Rule("viewer", Reach.TENANT),
    "why_job": Rule("viewer", Reach.TENANT),
    "job_events": Rule("viewer", Reach.TENANT),
    "list_logs": Rule("viewer", Reach.TENANT),
    "read_log": Rule("viewer", Reach.TENANT),
    "submit_job": Rule("user"),
    "show_package": Rule("user"),
    "put_package": Rule("user"),
    "cancel_job": Rule("user", Reach.OWN),
    "suspend_job": Rule("user", Reach.OWN),
    "resume_job": Rule("user", Reach.OWN),
    "scale_job": Rule("user", Reach.OWN),
    "move_job": Rule("user", Reach.OWN),
    "list_nodes": Rule("viewer"),
    "drain_node": Rule("admin"),
    "undrain_node": Rule("admin"),
    "list_pools": Rule("viewer"),
    "set_pool": Rule("admin"),
    "show_policy": Rule("viewer"),
    "set_policy": Rule("admin"),
    "set_shadow": Rule("admin"),
    "list_quotas": Rule("viewer"),
    "set_quota": Rule("admin"),
    "list_users": Rule("admin"),
    "add_user": Rule("admin"),
    "remove_user": Rule("admin"),
    "set_role": Rule("admin"),
    # Everybody else sees, makes and revokes tokens of their own only; see routes/people.py.
    "list_tokens": Rule("viewer"),
    "new_token": Rule("user"),
    "revoke_token": Rule("user"),
    "audit_log": Rule("admin"),
}

_RANK: Mapping[Role, int] = {"viewer": 0, "user": 1, "admin": 2}


def suffices(role: Role, least: Role) -> bool:
    """Whether a role includes another."""
    return _RANK[role] >= _RANK[least]
