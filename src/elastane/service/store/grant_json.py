"""Grants as JSON values and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elastane.cluster import Batch, Grant, Slice


def grant_to_json(grant: Grant) -> dict[str, Any]:
    """Only what differs from the defaults, so that rows stay short."""
    values: dict[str, Any] = {"slices": [_slice_to_json(part) for part in grant.slices]}
    if grant.batch is not None:
        values["batch"] = {"per_gpu": grant.batch.per_gpu, "accumulation": grant.batch.accumulation}
    if grant.lease_until_s is not None:
        values["lease_until_s"] = grant.lease_until_s
    return values


def grant_from_json(values: Mapping[str, Any]) -> Grant:
    """The grant that was stored."""
    batch = values.get("batch")
    return Grant(
        tuple(_slice_from_json(part) for part in values["slices"]),
        None if batch is None else Batch(batch["per_gpu"], batch["accumulation"]),
        values.get("lease_until_s"),
    )


def _slice_to_json(part: Slice) -> dict[str, Any]:
    values: dict[str, Any] = {"node": part.node, "workers": part.workers}
    if part.servers:
        values["servers"] = part.servers
    if part.devices:
        values["devices"] = list(part.devices)
    if part.share != 1.0:
        values["share"] = part.share
    return values


def _slice_from_json(values: Mapping[str, Any]) -> Slice:
    return Slice(
        values["node"],
        values["workers"],
        values.get("servers", 0),
        tuple(values.get("devices", ())),
        values.get("share", 1.0),
    )
