"""NVIDIA's management library, asked through ctypes: names, memory and UUIDs of devices and of their instances (MIG).

It initialises no device.  It does open the driver's files, and its state must not be inherited by a fork, so it is
shut down as soon as the question is answered (``opened``).  Every answer is checked: a device that has fallen off the
bus answers with an error, and is told of instead of being counted.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from elastane.accelerators.device import Accelerator

LIBRARY = "libnvidia-ml.so.1"
_NAME_BYTES = 96
_LOST = 15


@dataclass(frozen=True, slots=True)
class Physical:
    """A device of NVIDIA's, in the order of the driver, and the instances it is divided into."""

    index: int
    device: Accelerator | None
    instances: tuple[Accelerator, ...] = ()
    divided: bool = False
    problem: str = ""

    @property
    def usable(self) -> tuple[Accelerator, ...]:
        """What workers can be given: its instances if it is divided, else itself."""
        if self.divided:
            return self.instances
        return (self.device,) if self.device is not None else ()


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Failed(Exception):
    """A call that did not answer with success; its code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Nvml:
    """The library, loaded and initialised."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    @classmethod
    @contextmanager
    def opened(cls, path: str = LIBRARY) -> Iterator[Nvml | None]:
        """Initialises the library, and shuts it down afterwards; None where there is no driver."""
        found = cls._initialised(path)
        try:
            yield found
        finally:
            if found is not None:
                with suppress(_Failed):
                    found._ask("nvmlShutdown")

    @classmethod
    def _initialised(cls, path: str) -> Nvml | None:
        try:
            found = cls(ctypes.CDLL(path))
            found._ask("nvmlInit_v2")
        except (OSError, AttributeError, _Failed):
            return None
        return found

    def driver(self) -> str:
        """The driver's version, or nothing."""
        try:
            return self._text("nvmlSystemGetDriverVersion")
        except _Failed:
            return ""

    def devices(self) -> list[Physical]:
        """Every device, also those that do not answer."""
        count = ctypes.c_uint()
        try:
            self._ask("nvmlDeviceGetCount_v2", ctypes.byref(count))
        except _Failed:
            return []
        return [self._device(index) for index in range(count.value)]

    def _device(self, index: int) -> Physical:
        handle = ctypes.c_void_p()
        try:
            self._ask("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
            device = self._accelerator(handle)
        except _Failed as failed:
            why = "has fallen off the bus" if failed.code == _LOST else f"does not answer (NVML: {failed.code})"
            return Physical(index, None, problem=f"GPU {index} {why}: it is left out; see nvidia-smi and dmesg")
        if not self._divided(handle):
            return Physical(index, device)
        instances = self._instances(handle, device.id)
        none = f"GPU {index} is divided (MIG) but has no instances: nvidia-smi mig -cgi … -C makes some"
        return Physical(index, device, instances, True, "" if instances else none)

    def _accelerator(self, handle: ctypes.c_void_p, parent: str = "") -> Accelerator:
        memory = _Memory()
        self._ask("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
        name, uuid = self._text("nvmlDeviceGetName", handle), self._text("nvmlDeviceGetUUID", handle)
        return Accelerator(uuid, name, round(memory.total / 2**30, 1), parent)

    def _divided(self, handle: ctypes.c_void_p) -> bool:
        now, later = ctypes.c_uint(), ctypes.c_uint()
        try:
            self._ask("nvmlDeviceGetMigMode", handle, ctypes.byref(now), ctypes.byref(later))
        except _Failed:  # a device that cannot be divided
            return False
        return bool(now.value)

    def _instances(self, handle: ctypes.c_void_p, parent: str) -> tuple[Accelerator, ...]:
        most, found = ctypes.c_uint(), []
        try:
            self._ask("nvmlDeviceGetMaxMigDeviceCount", handle, ctypes.byref(most))
        except _Failed:
            return ()
        for index in range(most.value):
            instance = ctypes.c_void_p()
            try:
                self._ask(
                    "nvmlDeviceGetMigDeviceHandleByIndex", handle, ctypes.c_uint(index), ctypes.byref(instance)
                )
                found.append(self._accelerator(instance, parent))
            except _Failed:  # numbers have gaps
                continue
        return tuple(found)

    def _text(self, function: str, *handle: ctypes.c_void_p) -> str:
        text = ctypes.create_string_buffer(_NAME_BYTES)
        self._ask(function, *handle, text, ctypes.c_uint(_NAME_BYTES))
        return text.value.decode(errors="replace")

    def _ask(self, function: str, *arguments: object) -> None:
        try:
            code = getattr(self._library, function)(*arguments)
        except AttributeError:  # an old driver
            raise _Failed(-1) from None
        if code:
            raise _Failed(code)
