"""A worker's runner notes on a pipe to its parent that it ends because memory ran out: an exit code cannot say so.

The note is a type of exception that the interpreter raised, never a text that the script printed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import MutableMapping

VARIABLE = "ELASTANE_EXIT_NOTE"
"""Holds the number of the pipe's end, for a runner that was started and not forked."""
_NO_MEMORY = b"out of memory\n"
_TORCH_HOST_MEMORY = "DefaultCPUAllocator: can't allocate memory"
"""How PyTorch's allocator for the main memory begins its message; it has no exception type of its own."""
_writing: list[int] = []


def write_to(fd: int) -> None:
    """Use this end of a pipe for the note of this process."""
    _writing[:] = [fd]


def take_from(environment: MutableMapping[str, str]) -> None:
    """Use the end that the environment names, if any, and hide it from whatever this process starts."""
    text = environment.pop(VARIABLE, "")
    if text.isdigit():
        os.set_inheritable(int(text), False)
        write_to(int(text))


def note(error: BaseException) -> None:
    """Write the note if this exception means that memory ran out."""
    if _writing and is_out_of_memory(error):
        with contextlib.suppress(OSError):
            os.write(_writing[0], _NO_MEMORY)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the interpreter or PyTorch raised this because it got no memory."""
    torch = sys.modules.get("torch")
    if isinstance(error, (MemoryError, getattr(torch, "OutOfMemoryError", MemoryError))):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and _TORCH_HOST_MEMORY in str(error)


def read_note(fd: int) -> bool:
    """Whether the note is there; closes the pipe.  Whatever else is in it means nothing."""
    os.set_blocking(fd, False)
    try:
        return os.read(fd, len(_NO_MEMORY) + 1) == _NO_MEMORY
    except OSError:
        return False
    finally:
        os.close(fd)
