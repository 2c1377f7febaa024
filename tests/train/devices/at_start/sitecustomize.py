"""Runs when an interpreter of a test's job starts: makes the pretend GPU known, and its communicator."""

from __future__ import annotations

import os

from fakegpu.torch_device import install

install().policy(os.environ.get("FAKEGPU_POLICY", "late"), int(os.environ.get("FAKEGPU_DELAY_US", "0")))

from pretend_communicator import register  # noqa: E402

from elastane.accelerators import device  # noqa: E402 (PyTorch has to know the device first)

device._VARIABLES["fake"] = "FAKEGPU_VISIBLE_DEVICES"
register()
