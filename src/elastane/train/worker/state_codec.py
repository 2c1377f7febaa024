"""Nested training state as named tensors and a JSON tree, and back: what a file or a wire can carry unpickled.

It knows what the ``state_dict()`` of modules, optimizers, schedulers and scalers and the states of random number
generators are made of, and refuses everything else by its path.  It does not read or write anything.

In the tree a JSON array is a list, a JSON object has the tag of what it stands for as its first key, and None,
bool, small ints, finite floats and text stand for themselves.  An ``OrderedDict`` or ``defaultdict`` comes back as
a dict, except that the version numbers a module's state dict carries are kept; a ``torch.Size`` comes back as a
tuple, a parameter as a tensor.
"""

from __future__ import annotations

import base64
import math
import struct
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from elastane.train.errors import TrainError
from elastane.train.worker.host_copies import HostCopies, copy_to_host

_Path = tuple[str, ...]

_DEEPEST = 64
"""Levels of nesting; a state that contains itself is found by it."""

_INT_LIMIT = 2**63
"""Larger ints go as hexadecimal text: Python reads no decimal of more than 4300 digits."""

_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
_PORTABLE = frozenset((*_FLOATS, *_INTEGERS))
"""Types that every file format for tensors knows; the others travel as bytes."""

_METADATA = "_metadata"


@dataclass(frozen=True, slots=True)
class Packed:
    """State without Python objects: ``tensors`` by name, and a JSON ``tree`` that refers to the names."""

    tensors: dict[str, Tensor]
    tree: Any


def pack(state: Any) -> Packed:
    """Take ``state`` apart.  Tensors are not copied: later changes to them show in the result."""
    packer = _Packer()
    tree = packer.value(state, ())
    return Packed(packer.tensors, tree)


def unpack(packed: Packed) -> Any:
    """The inverse of ``pack``; tensors of common types are those of ``packed``, not copies."""
    try:
        return _Unpacker(packed.tensors).value(packed.tree)
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError, StopIteration) as error:
        raise TrainError(f"this is not a packed training state: {error!r}") from error


@dataclass(frozen=True, slots=True)
class Clone:
    """A copy of a state in main memory; what comes from a device is there when ``copies`` are."""

    packed: Packed
    copies: HostCopies


def start_clone(packed: Packed, into: Packed | None = None) -> Clone:
    """A copy in main memory that is under way; ``copies.hold_back()`` keeps later changes from reaching it.

    Tensors of ``into`` with the same name, shape and type are overwritten and used again, which saves the
    system from finding new memory; whoever holds ``into`` loses what was in it.
    """
    old = into.tensors if into else {}
    copies = copy_to_host(list(packed.tensors.values()), [old.get(name) for name in packed.tensors])
    return Clone(Packed(dict(zip(packed.tensors, copies.tensors, strict=True)), packed.tree), copies)


def clone_tensors(packed: Packed, into: Packed | None = None) -> Packed:
    """A copy in main memory that later changes to the state do not reach (``into``: see ``start_clone``)."""
    clone = start_clone(packed, into)
    clone.copies.wait()
    return clone.packed


def nbytes(packed: Packed) -> int:
    """Bytes in the tensors; the tree is small beside them."""
    return sum(tensor.nbytes for tensor in packed.tensors.values())


class _Packer:
    """One walk through a state; ``tensors`` grows on the way."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._shared: dict[tuple[Any, ...], Any] = {}
        self._kinds: dict[type, Callable[[Any, _Path], Any]] = {
            list: lambda value, path: self._items(value, path),
            tuple: lambda value, path: {"tuple": self._items(value, path)},
            torch.Size: lambda value, path: {"tuple": self._items(value, path)},
            set: lambda value, path: {"set": self._members(value, path)},
            frozenset: lambda value, path: {"frozenset": self._members(value, path)},
            dict: self._dict,
            OrderedDict: self._dict,
            defaultdict: self._dict,
            Counter: lambda value, path: {"counter": self._pairs(value, path)},
            Tensor: self._tensor,
            torch.nn.Parameter: self._tensor,
            np.ndarray: self._array,
        }

    def value(self, value: Any, path: _Path) -> Any:
        if len(path) > _DEEPEST:
            raise TrainError(
                f"{_text(path[:4])}…: nested in more than {_DEEPEST} levels; does it contain itself?"
            )
        if isinstance(value, np.generic):
            return self._scalar(value, path)
        handler = self._kinds.get(type(value))
        return handler(value, path) if handler else _primitive(value, path)

    def _items(self, values: Iterable[Any], path: _Path) -> list[Any]:
        return [self.value(value, (*path, f"[{index}]")) for index, value in enumerate(values)]

    def _members(self, values: Iterable[Any], path: _Path) -> list[Any]:
        # Sorted, because sets of text are in another order in every process.
        return sorted((_primitive(value, (*path, "{}")) for value in values), key=repr)

    def _pairs(self, values: dict[Any, Any], path: _Path) -> list[Any]:
        return [
            [_primitive(key, (*path, " (a key)")), self.value(value, (*path, _step(key)))]
            for key, value in values.items()
        ]

    def _dict(self, values: dict[Any, Any], path: _Path) -> Any:
        node: dict[str, Any] = {"dict": self._pairs(values, path)}
        # Modules tell old states from new ones by these versions, and take none for very old.
        if (metadata := getattr(values, _METADATA, None)) is not None:
            node["metadata"] = self.value(metadata, (*path, f".{_METADATA}"))
        return node

    def _tensor(self, tensor: Tensor, path: _Path) -> Any:
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type == "meta":
            raise TrainError(
                f"{_text(path)}: a tensor that is sparse, quantized or without data cannot be saved"
            )
        facts = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.device)
        key = (*facts, tensor.is_conj(), tensor.is_neg())
        if key in self._shared and tensor.numel():
            return self._shared[key]
        node = self._shared[key] = self._new_tensor(tensor.detach().resolve_conj().resolve_neg(), path)
        return node

    def _new_tensor(self, tensor: Tensor, path: _Path) -> Any:
        if tensor.dtype in _PORTABLE:
            return {"tensor": self._keep(tensor, path)}
        # A single element counts as contiguous whatever its stride is, and cannot be seen as bytes then.
        raw = tensor.contiguous().as_strided((tensor.numel(),), (1,)).view(torch.uint8)
        kind = str(tensor.dtype).removeprefix("torch.")
        return {"tensor": self._keep(raw, path), "dtype": kind, "shape": list(tensor.shape)}

    def _array(self, array: np.ndarray[Any, Any], path: _Path) -> Any:
        if array.dtype.kind in "OV" or not array.dtype.itemsize:
            raise TrainError(f"{_text(path)}: an array of {array.dtype} cannot be saved")
        # A read-only array would make torch warn that it must not be written to, which nobody does.
        flat = np.require(array.reshape(-1), requirements=["C", "W"]).view(np.uint8)
        node = {"array": self._keep(torch.from_numpy(flat), path), "dtype": array.dtype.str}
        return {**node, "shape": list(array.shape)}

    def _scalar(self, value: np.generic, path: _Path) -> Any:
        if value.dtype.kind in "OV":
            _refuse(value, path)
        return {"number": value.tobytes().hex(), "dtype": value.dtype.str}

    def _keep(self, tensor: Tensor, path: _Path) -> str:
        """Store under the path, made unique: keys may themselves contain dots."""
        base = _text(path).encode("utf-8", "backslashreplace").decode()
        name, count = base, 1
        while name in self.tensors or name == "__metadata__":  # the latter means something else to safetensors
            count += 1
            name = f"{base}#{count}"
        self.tensors[name] = tensor
        return name


class _Unpacker:
    """One walk through a tree."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._tensors = tensors
        self._restored: dict[str, Tensor] = {}
        self._tags: dict[str, Callable[[dict[str, Any]], Any]] = {
            "int": lambda node: int(node["int"], 16),
            "float": lambda node: struct.unpack(">d", bytes.fromhex(node["float"]))[0],
            "text": lambda node: bytes.fromhex(node["text"]).decode("utf-8", "surrogatepass"),
            "bytes": lambda node: base64.b64decode(node["bytes"], validate=True),
            "tuple": lambda node: tuple(self.value(node["tuple"])),
            "set": lambda node: set(self.value(node["set"])),
            "frozenset": lambda node: frozenset(self.value(node["frozenset"])),
            "dict": self._dict,
            "counter": lambda node: Counter(self._pairs(node["counter"])),
            "tensor": self._tensor,
            "array": self._array,
            "number": lambda node: np.ndarray((), np.dtype(node["dtype"]), bytes.fromhex(node["number"]))[()],
        }

    def value(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.value(item) for item in node]
        return self._tags[next(iter(node))](node) if isinstance(node, dict) else node

    def _pairs(self, pairs: list[list[Any]]) -> dict[Any, Any]:
        return {self.value(key): self.value(value) for key, value in pairs}

    def _dict(self, node: dict[str, Any]) -> dict[Any, Any]:
        pairs = self._pairs(node["dict"])
        if "metadata" not in node:
            return pairs
        versioned = OrderedDict(pairs)
        setattr(versioned, _METADATA, self.value(node["metadata"]))
        return versioned

    def _tensor(self, node: dict[str, Any]) -> Tensor:
        name = node["tensor"]
        if "dtype" not in node:
            return self._tensors[name]
        if name not in self._restored:  # shared tensors stay one object
            # Cloned, because bytes read from a file may begin at an address that is odd for their type.
            raw = self._tensors[name].clone().view(_dtype(node["dtype"]))
            self._restored[name] = raw.reshape(node["shape"])
        return self._restored[name]

    def _array(self, node: dict[str, Any]) -> np.ndarray[Any, Any]:
        array = np.empty(node["shape"], np.dtype(node["dtype"]))
        array.reshape(-1).view(np.uint8)[:] = self._tensors[node["array"]].cpu().numpy()
        return array


def _primitive(value: Any, path: _Path) -> Any:
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if -_INT_LIMIT < value < _INT_LIMIT else {"int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"float": struct.pack(">d", value).hex()}
    if kind is str:
        return value if _encodable(value) else {"text": value.encode("utf-8", "surrogatepass").hex()}
    if kind is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    return _refuse(value, path)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse(value: Any, path: _Path) -> NoReturn:
    kind = type(value).__name__
    article = "an" if kind[0].lower() in "aeiou" else "a"
    raise TrainError(f"{_text(path)}: {article} {kind} cannot be saved")


def _step(key: Any) -> str:
    return f".{key}" if isinstance(key, str) else f"[{key!r}]"


def _text(path: _Path) -> str:
    return "".join(path).removeprefix(".") or "state"


def _dtype(name: str) -> torch.dtype:
    kind = getattr(torch, name, None)
    if not isinstance(kind, torch.dtype):
        raise TypeError(f"{name} is not a type of tensors")
    return kind
