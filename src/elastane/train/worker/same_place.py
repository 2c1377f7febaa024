"""Marks: workers find out, in one small collective, whether all of them are at the same place of the script."""

from __future__ import annotations

import zlib

import torch

from elastane.train.worker.membership import Membership


def same_everywhere(membership: Membership, mark: str) -> bool:
    """Whether all members give the same mark; call it before collectives whose sizes depend on the place."""
    if membership.group is None:
        return True
    marks = torch.zeros(membership.world, dtype=torch.float64)
    marks[membership.rank] = zlib.crc32(mark.encode())
    membership.group.all_reduce(marks)
    return len(set(marks.tolist())) == 1
