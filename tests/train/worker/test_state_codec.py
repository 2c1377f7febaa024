"""Packing: every value comes back as it was, what cannot is refused by its path, and copies are copies."""

from __future__ import annotations

import json
import math
import random
import struct
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import nn, optim
from torch.optim import lr_scheduler as lrs

from elastane.train.errors import TrainError
from elastane.train.worker.state_codec import Packed, clone_tensors, nbytes, pack, unpack

texts = st.text(st.characters(codec=None, exclude_categories=())) | st.sampled_from(["", "__metadata__", "a.b"])
primitives = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True, width=64)
    | texts
    | st.binary(max_size=20)
)
TENSOR_TYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e8m0fnu),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.bool, torch.complex64, torch.complex128),
]
ARRAY_TYPES = ["<f8", ">f4", "<f2", "<i8", ">i2", "|u1", "|b1", "<c16", "<U3", "|S4", "<M8[ns]", "<m8[s]"]


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    dtype = draw(st.sampled_from(TENSOR_TYPES))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    if not math.prod(shape):
        return torch.empty(shape, dtype=dtype)
    size = 2 * math.prod(shape) * dtype.itemsize
    data = bytearray(draw(st.binary(min_size=size, max_size=size)))
    if dtype is torch.bool:
        data = bytearray(byte & 1 for byte in data)
    pairs = torch.frombuffer(data, dtype=torch.uint8).clone().view(dtype).reshape(*shape, 2)
    contiguous, strided = pairs.reshape(2, *shape)[0], pairs[..., 1]
    turned = contiguous.transpose(0, -1) if shape else contiguous
    return (contiguous, strided, turned)[draw(st.integers(0, 2))]


arrays = st.sampled_from(ARRAY_TYPES).flatmap(
    lambda kind: hnp.arrays(np.dtype(kind), hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
)
scalars = st.sampled_from(ARRAY_TYPES).flatmap(
    lambda kind: hnp.arrays(np.dtype(kind), (1,)).map(lambda array: array[0])
)
leaves = primitives | tensors() | arrays | scalars
states = st.recursive(
    leaves | st.sets(primitives, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(texts | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


def same(a: Any, b: Any) -> bool:
    """Equal in type and to the last bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and raw(a) == raw(b)
    if isinstance(a, np.ndarray | np.generic):
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, dict):
        return same(list(a), list(b)) and same(list(a.values()), list(b.values()))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, set):
        return sorted(map(bits, a)) == sorted(map(bits, b))
    return bool(a == b)


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().as_strided((tensor.numel(),), (1,)).view(torch.uint8).numpy().tobytes()


def bits(value: Any) -> str:
    return f"{type(value)} {struct.pack('d', value).hex() if isinstance(value, float) else value!r}"


def travelled(state: Any) -> Any:
    """Through strict JSON text and a clone of the tensors, as any file or wire would do it."""
    packed = clone_tensors(pack(state))
    return unpack(Packed(packed.tensors, json.loads(json.dumps(packed.tree, allow_nan=False))))


@settings(max_examples=300, deadline=None)
@given(states)
def test_every_state_comes_back_to_the_last_bit(state: Any) -> None:
    assert same(travelled(state), state)


@pytest.mark.parametrize(
    "value",
    [10**10_000, -(2**63), 2**63 - 1, -(10**400), True, 1, -0.0, math.inf, -math.inf, math.nan, 5e-324],
    ids=lambda value: (
        f"{value:g}" if abs(value) < 10**9 or value != value or isinstance(value, float) else "big"
    ),
)
def test_numbers_keep_type_and_value(value: float) -> None:
    assert same(travelled(value), value)


def test_a_nan_keeps_its_payload() -> None:
    odd = struct.unpack(">d", bytes.fromhex("fff800000000beef"))[0]
    assert struct.pack(">d", travelled(odd)).hex() == "fff800000000beef"


def test_halves_of_a_surrogate_pair_are_not_joined() -> None:
    halves = "\ud83d" + "\ude00"
    assert travelled(halves) == halves
    assert len(travelled(halves)) == 2


def test_keys_keep_type_and_order() -> None:
    state = {2: "two", "2": "text", 1: "one", False: "no", None: "nothing"}
    assert same(travelled(state), state)


def test_mappings_become_dicts_but_counters_still_count() -> None:
    ordered, default = OrderedDict(b=1, a=2), defaultdict(list, {3: [4]})
    assert same(travelled([ordered, default]), [{"b": 1, "a": 2}, {3: [4]}])
    assert travelled(Counter([5, 5, 7])) == Counter([5, 5, 7])
    assert list(travelled(Counter([5, 5, 7])).elements()) == [5, 5, 7]


def test_a_set_is_packed_the_same_whatever_its_order() -> None:
    assert pack({"b", "a", "c"}).tree == pack({"c", "b", "a"}).tree


def test_names_with_dots_do_not_collide() -> None:
    state = {"a.b": torch.tensor(1), "a": {"b": torch.tensor(2)}, "__metadata__": torch.tensor(3)}
    assert len(pack(state).tensors) == 3
    assert same(travelled(state), state)


def test_shared_tensors_stay_shared_and_are_held_once() -> None:
    weight, wide = torch.randn(3, 2), torch.randn(4, dtype=torch.complex128)
    state = {"a": weight, "b": weight, "c": weight.view(3, 2), "d": wide, "e": wide}
    back = travelled(state)
    assert nbytes(pack(state)) == weight.nbytes + wide.nbytes
    assert back["a"] is back["b"] is back["c"]
    assert back["d"] is back["e"]


def test_different_views_of_one_memory_are_not_taken_for_each_other() -> None:
    base = torch.arange(6.0)
    state = [base, base.view(2, 3), base[:3], base[::2], base.view(2, 3).t(), base.view(torch.int32)]
    assert same(travelled(state), state)


def test_lazily_conjugated_tensors_are_resolved() -> None:
    z = torch.tensor([1 + 2j, 3 - 4j])
    back = travelled({"plain": z, "conj": z.conj(), "neg": z.conj().imag})
    assert back["conj"].tolist() == [1 - 2j, 3 + 4j]
    assert back["neg"].tolist() == [-2.0, 4.0]
    assert back["plain"].tolist() == z.tolist()


def test_pack_does_not_copy_but_a_clone_is_independent() -> None:
    tensor = torch.zeros(3, requires_grad=True)
    packed = pack({"x": tensor})
    copy = clone_tensors(packed)
    with torch.no_grad():
        tensor.add_(1)
    assert unpack(packed)["x"].tolist() == [1, 1, 1]
    assert unpack(copy)["x"].tolist() == [0, 0, 0]
    assert not unpack(copy)["x"].requires_grad


def test_a_clone_is_detached_whoever_made_the_original() -> None:
    copy = clone_tensors(Packed({"x": nn.Parameter(torch.zeros(1))}, {"tensor": "x"}))
    assert not copy.tensors["x"].requires_grad


def test_a_clone_reuses_only_tensors_that_fit() -> None:
    old = clone_tensors(pack({"same": torch.zeros(4), "shape": torch.zeros(4), "type": torch.zeros(4)}))
    state = {
        "same": torch.ones(4),
        "shape": torch.ones(2, 2),
        "type": torch.ones(4).double(),
        "new": torch.ones(1),
    }
    new = clone_tensors(pack(state), into=old)
    assert same(unpack(new), state)
    assert [name for name in new.tensors if new.tensors[name] is old.tensors.get(name)] == ["same"]


def test_nbytes_counts_tensors_and_arrays() -> None:
    assert nbytes(pack([torch.zeros(3), np.zeros(2), torch.zeros(1, dtype=torch.complex128)])) == 12 + 16 + 16


def test_a_read_only_array_can_be_saved_and_comes_back_writable() -> None:
    array = np.arange(3)
    array.setflags(write=False)
    back = travelled(array)
    back[0] = 9
    assert array[0] == 0


class Colour(IntEnum):
    RED = 1


class Point(NamedTuple):
    x: int


def looped() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            {"scheduler": {"lr_lambdas": [lambda epoch: epoch]}},
            "scheduler.lr_lambdas[0]: a function cannot be saved",
        ),
        ({"model": nn.Linear(1, 1)}, "model: a Linear cannot be saved"),
        ({"state": {0: {"x": object()}}}, "state[0].x: an object cannot be saved"),
        (Colour.RED, "state: a Colour cannot be saved"),
        ({"p": (Point(1),)}, "p[0]: a Point cannot be saved"),
        ({(1, 2): 3}, "(a key): a tuple cannot be saved"),
        ({"s": {(1, 2)}}, "s{}: a tuple cannot be saved"),
        ({"a": np.array([None])}, "a: an array of object cannot be saved"),
        ({"a": torch.eye(2).to_sparse()}, "a: a tensor that is sparse"),
        ({"a": torch.empty(2, device="meta")}, "a: a tensor that is sparse, quantized or without data"),
        ({"a": nn.parameter.UninitializedParameter()}, "a: an UninitializedParameter cannot be saved"),
        (looped(), "does it contain itself?"),
    ],
)
def test_what_cannot_be_saved_is_named_by_its_path(state: Any, message: str) -> None:
    with pytest.raises(TrainError) as caught:
        pack(state)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "tree", [{"tensor": "missing"}, {"spell": 1}, {}, {"tensor": "x", "dtype": "load", "shape": []}, {"int": 3}]
)
def test_a_tree_that_is_none_is_refused(tree: Any) -> None:
    with pytest.raises(TrainError, match="not a packed training state"):
        unpack(Packed({"x": torch.zeros(1)}, tree))


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))


def trained(net: nn.Module, optimizer: optim.Optimizer, steps: int) -> None:
    for seed in range(steps):
        inputs = torch.randn(8, 3, generator=torch.Generator().manual_seed(seed))
        optimizer.zero_grad()
        net(inputs).square().mean().backward()
        optimizer.step()


OPTIMIZERS: list[Callable[[Any], optim.Optimizer]] = [
    lambda p: optim.SGD(p, 0.1, momentum=0.9),
    lambda p: optim.AdamW(p, 0.01, amsgrad=True),
    lambda p: optim.Adam(p, torch.tensor(0.01)),
    lambda p: optim.Adagrad(p, 0.1),
    lambda p: optim.RMSprop(p, 0.01, centered=True),
    lambda p: optim.Adafactor(p),
    lambda p: optim.LBFGS(p),
]


@pytest.mark.parametrize("make", OPTIMIZERS[:-1])
def test_training_goes_on_bit_for_bit_with_every_optimizer(make: Callable[[Any], optim.Optimizer]) -> None:
    net = model()
    optimizer = make(net.parameters())
    trained(net, optimizer, 3)
    saved = travelled({"model": net.state_dict(), "optimizer": optimizer.state_dict()})
    other = model()
    resumed = make(other.parameters())
    other.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["optimizer"])
    trained(net, optimizer, 3)
    trained(other, resumed, 3)
    assert same(dict(net.state_dict()), dict(other.state_dict()))


def test_the_history_of_lbfgs_survives() -> None:
    net = model()
    optimizer = OPTIMIZERS[-1](net.parameters())

    def closure() -> float:
        optimizer.zero_grad()
        loss = net(torch.ones(4, 3)).square().mean()
        loss.backward()
        return float(loss.detach())

    optimizer.step(closure)
    assert same(travelled(optimizer.state_dict()), optimizer.state_dict())


def test_versions_of_modules_survive() -> None:
    state = model().state_dict()
    assert travelled(state)._metadata == state._metadata  # type: ignore[attr-defined]


SCHEDULERS: list[Callable[[optim.Optimizer], Any]] = [
    lambda o: lrs.StepLR(o, 2),
    lambda o: lrs.MultiStepLR(o, [2, 4, 4]),
    lambda o: lrs.LambdaLR(o, lambda epoch: 0.9**epoch),
    lambda o: lrs.CosineAnnealingLR(o, 10),
    lambda o: lrs.CosineAnnealingWarmRestarts(o, 3),
    lambda o: lrs.OneCycleLR(o, 0.1, total_steps=20),
    lambda o: lrs.CyclicLR(o, 0.01, 0.1),
    lambda o: lrs.PolynomialLR(o),
    lambda o: lrs.SequentialLR(o, [lrs.LinearLR(o), lrs.MultiStepLR(o, [3])], [2]),
    lambda o: lrs.ChainedScheduler([lrs.ConstantLR(o), lrs.ExponentialLR(o, 0.9)]),
]


@pytest.mark.parametrize("make", SCHEDULERS)
def test_every_scheduler_goes_on_where_it_was(make: Callable[[optim.Optimizer], Any]) -> None:
    optimizers = [optim.SGD([nn.Parameter(torch.zeros(1))], 0.1, momentum=0.9) for _ in range(2)]
    first, second = (make(optimizer) for optimizer in optimizers)
    for _ in range(3):
        optimizers[0].step()
        first.step()
    second.load_state_dict(travelled(first.state_dict()))
    optimizers[1].load_state_dict(travelled(optimizers[0].state_dict()))
    for _ in range(6):
        for optimizer, scheduler in zip(optimizers, (first, second), strict=True):
            optimizer.step()
            scheduler.step()
        assert first.get_last_lr() == second.get_last_lr()
    assert optimizers[0].param_groups[0]["lr"] == optimizers[1].param_groups[0]["lr"]


@pytest.mark.filterwarnings("ignore:The epoch parameter")
def test_the_closed_form_of_a_multistep_schedule_still_works() -> None:
    optimizer = optim.SGD([nn.Parameter(torch.zeros(1))], 1.0)
    scheduler = lrs.MultiStepLR(optimizer, [2, 4, 4])
    scheduler.load_state_dict(travelled(scheduler.state_dict()))
    optimizer.step()
    scheduler.step(5)  # an explicit epoch takes the closed form, which asks the milestones for their elements
    assert scheduler.get_last_lr() == pytest.approx([1e-3])


def test_plateau_scheduler_and_scaler_survive() -> None:
    optimizer = optim.SGD([nn.Parameter(torch.zeros(1))], 1.0)
    plateau = lrs.ReduceLROnPlateau(optimizer, patience=1)
    plateau.step(3.0)
    scaler = torch.amp.GradScaler("cpu", enabled=True)
    scaler.scale(torch.tensor(1.0))
    for source in (plateau, scaler):
        state = source.state_dict()
        assert same(travelled(state), state)
        source.load_state_dict(travelled(state))


def test_random_number_generators_go_on_where_they_were() -> None:
    rng, old = random.Random(1), np.random.RandomState(2)
    new = [np.random.Generator(kind(3)) for kind in (np.random.PCG64, np.random.MT19937, np.random.Philox)]
    torch_rng = torch.Generator().manual_seed(4)
    states = [rng.getstate(), old.get_state(), [g.bit_generator.state for g in new], torch_rng.get_state()]
    back = travelled(states)

    def draws() -> list[Any]:
        sample = torch.rand(3, generator=torch_rng).tolist()
        return [rng.random(), old.normal(), [g.normal() for g in new], sample]

    expected = draws()
    rng.setstate(back[0])
    old.set_state(back[1])
    for generator, state in zip(new, back[2], strict=True):
        generator.bit_generator.state = state
    torch_rng.set_state(back[3])
    assert draws() == expected
