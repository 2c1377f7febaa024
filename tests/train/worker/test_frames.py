"""What makes no sense as a frame calls the join off, and costs no memory."""

from __future__ import annotations

import socket
import struct

import pytest
import torch

from elastane.train.device_checks import device_of
from elastane.train.errors import MembershipChanged
from elastane.train.worker.live_join.frames import received


def framed(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize(
    "sent",
    [
        framed(b"{"),
        framed(b'{"type":"part","step":"one","index":0,"beside":[]}'),
        framed(b'{"type":"other","step":1}'),
        framed(b'{"type":"gradient","step":1,"tensors":[["gradient","load",[1]]]}'),
        framed(b'{"type":"gradient","step":1,"tensors":[["more","float32",[-1]]]}'),
        struct.pack("<Q", 2**62),
    ],
)
def test_nonsense_calls_the_join_off(sent: bytes) -> None:
    donor, newcomer = socket.socketpair()
    with donor, newcomer:
        donor.sendall(sent)
        donor.shutdown(socket.SHUT_WR)
        with pytest.raises(MembershipChanged, match="sends no frames"):
            list(received(newcomer, torch.zeros(4), device_of(torch.nn.Linear(1, 1).parameters())))
