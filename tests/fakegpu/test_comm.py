"""The pretend communicator has NCCL's manners: only with these do the rules of the transports mean something."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch

from fakegpu import ranks
from fakegpu.comm import GARBAGE, Communicator
from fakegpu.ranks import Meeting

on_late_and_thread = pytest.mark.parametrize("fakegpu", ["late", "thread"], indirect=True)
on_late = pytest.mark.parametrize("fakegpu", ["late"], indirect=True)
D = "fakegpu:0"


def connected(rank: int, meeting: Meeting) -> Communicator:
    communicator = Communicator(meeting.store("nccl"), rank, 2)
    communicator.eager_connect_single_device(torch.device(D))
    return communicator


@on_late
def test_it_refuses_what_nccl_refuses(fakegpu: ModuleType) -> None:
    def body(rank: int, meeting: Meeting) -> Any:
        communicator = connected(rank, meeting)
        told = []
        for tensor in (torch.ones(2), torch.ones(4, device=D)[::2]):
            try:
                communicator.allreduce([tensor])
            except RuntimeError as error:
                told.append(str(error))
        return told

    refusals = ["No backend type associated with device type cpu", "NCCL-like: Tensors must be contiguous"]
    assert ranks.run(2, body) == [refusals, refusals]


@on_late_and_thread
def test_waiting_returns_at_once_and_a_missing_peer_is_a_hang_until_abort(fakegpu: ModuleType) -> None:
    def body(rank: int, meeting: Meeting) -> Any:
        communicator = connected(rank, meeting)
        if rank == 1:
            meeting.wait_for("done", [0])
            return None
        vector = torch.ones(4, device=D)
        work = communicator.allreduce([vector])
        work.wait()
        completed_early = work.is_completed()
        communicator.abort()
        torch.accelerator.synchronize()  # the stream goes on as if all were well
        seen = vector.view(torch.uint8).cpu().tolist()
        try:
            communicator.allreduce([vector])
        except RuntimeError as error:
            meeting.reached("done", 0)
            return [completed_early, work.is_completed(), seen == [GARBAGE] * 16, str(error)]

    assert ranks.run(2, body)[0] == [False, True, True, "NCCL-like: communicator was aborted"]
