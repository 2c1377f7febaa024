"""Runs when an interpreter of a test's job starts: makes the pretend GPU known, its communicator and its names."""

from __future__ import annotations

import os

from fakegpu.torch_device import install

install().policy(os.environ.get("FAKEGPU_POLICY", "late"), int(os.environ.get("FAKEGPU_DELAY_US", "0")))

import pretend_communicator  # noqa: E402 (PyTorch has to know the device first)

import elastane.accelerators as accelerators  # noqa: E402
from elastane.accelerators import probe  # noqa: E402

accelerators.device._VARIABLES["fake"] = "FAKEGPU_VISIBLE_DEVICES"
_names = [f"fake:{number}" for number in range(int(os.environ["FAKEGPU_COUNT"]))]
_found = accelerators.Found(tuple(accelerators.Accelerator(name, "Pretend GPU", 1.0) for name in _names))
_builds = probe.torch_builds()
accelerators.discover = lambda: _found
probe.torch_builds = lambda: {**_builds, "cuda": "pretend"}
if os.environ.get("FAKEGPU_COMMUNICATOR") != "none":
    pretend_communicator.register()
