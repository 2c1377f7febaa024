"""A port that is handed out can be listened on."""

from __future__ import annotations

import random
import socket

import pytest

from elastane.train.coordinator.ports import free_port


def test_a_port_in_use_is_passed_over() -> None:
    first = free_port("127.0.0.1", random.Random(7))
    with socket.create_server(("127.0.0.1", first)):
        other = free_port("127.0.0.1", random.Random(7))
        assert other != first
        with socket.create_server(("127.0.0.1", other)):
            pass


def test_an_address_that_is_not_ours_has_no_free_ports() -> None:
    with pytest.raises(OSError, match=r"no free port .* on 192.0.2.1"):
        free_port("192.0.2.1", random.Random(7))
