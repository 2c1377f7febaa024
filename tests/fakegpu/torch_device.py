"""Makes the pretend GPU known to PyTorch: ``torch.fakegpu``, methods of tensors, random states."""

from __future__ import annotations

import sys
import types
from typing import Any

import torch

from fakegpu import build

NAME = "fakegpu"


def install() -> types.ModuleType:
    """Loads the extension and registers it; initialises no device."""
    extension = build.load()
    if not hasattr(torch, NAME):
        torch.utils.rename_privateuse1_backend(NAME)
        module = _module(extension)
        torch._register_device_module(NAME, module)
        sys.modules[f"torch.{NAME}"] = module
        torch.utils.generate_methods_for_privateuse1_backend(unsupported_dtype=[])
    return getattr(torch, NAME)  # type: ignore[no-any-return]


def _module(extension: Any) -> types.ModuleType:
    def index(device: Any = None) -> int:
        if isinstance(device, int):
            return device
        named = None if device is None else torch.device(device).index
        return extension.current_device() if named is None else named

    class Within:
        """As ``torch.cuda.device``."""

        def __init__(self, device: Any) -> None:
            self._inside, self._outside = index(device), -1

        def __enter__(self) -> None:
            self._outside = extension.current_device()
            extension.set_device(self._inside)

        def __exit__(self, *_: object) -> None:
            extension.set_device(self._outside)

    module: Any = types.ModuleType(f"torch.{NAME}")
    module.device = Within
    module.is_available = lambda: extension.device_count() > 0
    module.device_count = extension.device_count
    module.current_device = extension.current_device
    module.set_device = lambda device: extension.set_device(index(device))
    module.is_initialized = extension.is_initialized
    module._is_in_bad_fork = extension.in_bad_fork
    module.init = module._lazy_init = extension.init
    module.synchronize = lambda device=None: torch.accelerator.synchronize(index(device))
    module.current_stream = lambda device=None: torch.accelerator.current_stream(index(device))
    module.get_device_name = lambda device=None: "Pretend GPU"
    module.get_device_properties = lambda device=None: types.SimpleNamespace(
        name="Pretend GPU", uuid=f"pretend-{extension.physical(index(device))}"
    )
    module.get_rng_state = lambda device=NAME: extension.default_generator(index(device)).get_state()
    module.set_rng_state = lambda state, device=NAME: extension.default_generator(index(device)).set_state(
        state
    )
    module.manual_seed = lambda seed: extension.default_generator(extension.current_device()).manual_seed(seed)
    module.manual_seed_all = lambda seed: [
        extension.default_generator(i).manual_seed(seed) for i in range(extension.device_count())
    ]
    module.default_generators = [extension.default_generator(i) for i in range(8)]
    module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    module.is_autocast_enabled = lambda: torch.is_autocast_enabled(NAME)
    module.memory = extension.memory
    module.policy = extension.policy
    module.Event, module.Stream = torch.Event, torch.Stream
    return module
