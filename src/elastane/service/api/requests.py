"""The bodies of requests other than submissions, for server and client.  Unknown fields are refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from elastane.service.messages import Role

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Written = Annotated[str, Field(min_length=1, max_length=1000)]


class Request(BaseModel):
    """Immutable and literal: a text is never taken for a number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Scale(Request):
    """A size to pin; null leaves it to the policy again."""

    workers: int | None = Field(ge=1, le=1_000_000)


class Move(Request):
    """A node to pin a job to."""

    node: Name


class ChoosePolicy(Request):
    """A policy as one would write it on the command line."""

    policy: Written


class ChooseShadow(Request):
    """A policy to run beside the real one; null for none."""

    policy: Written | None


class SetQuota(Request):
    """Slots a tenant may hold (null: no limit); weight and lending stay as they are unless given."""

    slots: int | None = Field(ge=0, le=1_000_000_000)
    weight: float | None = Field(default=None, gt=0, le=1e6)
    lends: bool | None = None


class SetPool(Request):
    """Bounds of a pool; what is null stays as it is, and a budget of -1 is no limit."""

    least: int | None = Field(default=None, ge=0, le=100_000)
    most: int | None = Field(default=None, ge=0, le=100_000)
    idle_s: float | None = Field(default=None, ge=0, le=1e9, description="How long a node stays that is idle.")
    budget_per_hour: float | None = Field(
        default=None, ge=-1, le=1e9, description="What all nodes of the pool may cost; -1 is no limit."
    )


class AddUser(Request):
    """A user to add."""

    name: Name
    role: Role = "user"
    tenant: Name = "default"


class SetRole(Request):
    """A role to give to a user."""

    role: Role


class MakeToken(Request):
    """A token for oneself, or (an admin) for another user."""

    user: Name | None = None
    label: str = Field(default="", max_length=200)
    lifetime_s: float | None = Field(
        default=None, gt=0, le=3.2e9, description="How long it is good; null is as long as the caller's own."
    )
