"""Reads what was added to a text file since the last look, also when it is rotated or written anew."""

from __future__ import annotations

import codecs
import os
from pathlib import Path

from elastane.errors import ElastaneError

_CHUNK = 1 << 20
_HEAD = 256


class Tail:
    """Continues reading where it stopped, or from the beginning when the file is another one (``anew``)."""

    def __init__(self, path: Path) -> None:
        self.anew = False
        self._path, self._position, self._head = path, 0, b""
        self._inode: int | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def read(self) -> str:
        """Returns the next piece of text; empty when there is nothing new."""
        self.anew = False
        try:
            with self._path.open("rb") as file:
                known = os.fstat(file.fileno())
                head = file.read(_HEAD)
                same = known.st_ino == self._inode and known.st_size >= self._position
                if not same or not head.startswith(self._head):
                    self._restart(known.st_ino)
                self._head = head if len(head) > len(self._head) else self._head
                file.seek(self._position)
                raw = file.read(_CHUNK)
        except FileNotFoundError:  # between two files of a rotation
            return ""
        except OSError as error:
            raise ElastaneError(f"cannot read {self._path}: {error.strerror}") from None
        self._position += len(raw)
        return self._decoder.decode(raw)

    def _restart(self, inode: int) -> None:
        self.anew = True
        self._position, self._inode, self._head = 0, inode, b""
        self._decoder.reset()
