"""Computes the cost of an operator in floating-point operations and bytes, and the sizes that describe it.

PyTorch's own counter knows matrix products, convolutions and attention and answers 0 for everything else, also for
an LSTM on a CPU, whose fused operator hides its products.  Here nothing is 0: what moves data counts its bytes, what
computes counts operations per element, and an operator without a rule is ``Kind.UNKNOWN``, with the bytes it touches.

=====================  =========================================================================================
kind                   ``dims``
=====================  =========================================================================================
convolution            batch, channels in, out, size in (product), size out (product), kernel (product), stride, groups
convolution_backward   the same, and the number of gradients asked for (input, weight)
matmul                 batch, m, n, k
attention              batch · heads, query length, key length, head size, 1 if backward
recurrent              length, batch, input size, hidden size, 1 if backward
all others             elements written, elements read, kernel or row length where there is one (else 1)
=====================  =========================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elastane.predict.operators import Kind, Shape

_WITHIN = {
    Kind.POOL: "pool upsample grid_sampler pixel_shuffle",
    Kind.NORM: "batch_norm layer_norm group_norm rms_norm weight_norm",
    Kind.SOFTMAX: "softmax nll_loss logsumexp ctc_loss",
    Kind.EMBEDDING: "embedding scatter gather index",
    Kind.RANDOM: "bernoulli dropout",
}
"""Kinds by words that occur anywhere in an operator's name."""

_WHOLE = {
    Kind.RANDOM: "rand randn randint normal uniform exponential multinomial randperm rand_like randn_like",
    Kind.EMBEDDING: "take",
    Kind.ELEMENTWISE: "hardtanh_backward leaky_relu_backward elu_backward hardswish_backward hardsigmoid_backward "
    "softplus_backward mish_backward log_sigmoid_backward log_sigmoid_forward glu glu_backward rrelu_with_noise "
    "prelu prelu_kernel prelu_kernel_backward lerp where clamp lgamma polar",
    Kind.REDUCTION: "sum mean amax amin argmax argmin max min norm prod std var var_mean cumsum sort topk all any "
    "linalg_vector_norm cumprod median mse_loss l1_loss huber_loss smooth_l1_loss binary_cross_entropy",
    Kind.COPY: "clone copy cat stack zeros zeros_like ones ones_like full full_like fill zero constant_pad_nd "
    "arange repeat roll flip tril triu to_copy expand_copy eye unfold_backward slice_backward select_backward "
    "reflection_pad1d reflection_pad2d replication_pad2d im2col col2im nonzero new_zeros new_ones new_full",
}
"""Kinds by whole names, or by a name's beginning up to an underscore."""

_STEMS = {stem: kind for kind, stems in _WHOLE.items() for stem in stems.split()}
_WORDS = {word: kind for kind, words in _WITHIN.items() for word in words.split()}
_PER_ELEMENT = {
    Kind.NORM: 8.0,
    Kind.SOFTMAX: 5.0,
    Kind.RANDOM: 10.0,
    Kind.EMBEDDING: 1.0,
    Kind.ELEMENTWISE: 1.0,
    Kind.REDUCTION: 1.0,
    Kind.COPY: 1.0,
    Kind.POOL: 1.0,
    Kind.UNKNOWN: 1.0,
}
"""Operations per element read or written, whichever are more; copying one takes an instruction too."""

_MATMULS = {"mm", "addmm", "bmm", "baddbmm", "dot", "mv", "addmv", "_scaled_mm", "linear", "addr"}


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one call by its rule: kind, FLOPs, bytes and descriptive sizes."""

    kind: Kind
    flops: float
    bytes: float
    dims: Shape


@dataclass(frozen=True, slots=True)
class Call:
    """One call of one operator as the dispatcher saw it; ``stem`` is its name without namespace and overload."""

    stem: str
    pointwise: bool
    reduction: bool
    arguments: Sequence[Any]
    named: Mapping[str, Any]
    read: tuple[tuple[Shape, int], ...]
    """Shape and bytes of every tensor read."""
    written: tuple[tuple[Shape, int], ...]

    @property
    def elements_read(self) -> int:
        """Counts the elements of all input tensors."""
        return sum(math.prod(shape) for shape, _ in self.read)

    @property
    def elements_written(self) -> int:
        """Counts the elements of all output tensors."""
        return sum(math.prod(shape) for shape, _ in self.written)

    @property
    def traffic(self) -> int:
        """The bytes of all input and output tensors, each counted once."""
        return sum(size for _, size in self.read) + sum(size for _, size in self.written)


def cost_of(call: Call) -> Cost:
    """Applies the rule for a call, chosen by its name, then by the dispatcher's tags."""
    for known, rule in _RULES.items():
        if call.stem.startswith(known):
            return rule(call)
    if call.stem in _MATMULS:
        return _matmul(call)
    return _plain(call, _kind(call))


def _kind(call: Call) -> Kind:
    for word, kind in _WORDS.items():
        if word in call.stem:
            return kind
    stem = call.stem.removeprefix("_foreach_").strip("_").removeprefix("native_")
    while stem:
        if stem in _STEMS:
            return _STEMS[stem]
        stem = stem.rpartition("_")[0]
    if call.pointwise or call.stem.startswith(("_foreach_", "_fused_")):
        return Kind.ELEMENTWISE
    return Kind.REDUCTION if call.reduction else Kind.UNKNOWN


def _plain(call: Call, kind: Kind) -> Cost:
    moved = call.traffic
    length = call.read[0][0][-1] if call.read and call.read[0][0] else 1
    elements = max(call.elements_read, call.elements_written)
    if kind is Kind.EMBEDDING:
        # Rows that are not asked for are not touched: the table counts no more than what is taken out of it.
        table = max((size for _, size in call.read), default=0)
        taken = sum(size for _, size in call.written)
        moved = moved - table + min(table, taken)
        elements = max(call.elements_written, 1)
    if kind is Kind.POOL:
        length = _window(call)
        elements = call.elements_written * length if "backward" not in call.stem else call.elements_read
    if kind is Kind.ELEMENTWISE:
        length = 1
        elements = max(elements // max(len(call.read), 1), call.elements_written)
    dims = (max(call.elements_written, 1), max(call.elements_read, 1), max(length, 1))
    return Cost(kind, _PER_ELEMENT[kind] * max(elements, 1), float(max(moved, 1)), dims)


def _window(call: Call) -> int:
    """Returns the elements of a pooling window: from its argument, or from the sizes for an adaptive one."""
    if "adaptive" not in call.stem and len(call.arguments) > 1 and isinstance(call.arguments[1], list | tuple):
        return max(math.prod(int(side) for side in call.arguments[1]), 1)
    return max(call.elements_read // max(call.elements_written, 1), 1)


def _convolution(call: Call) -> Cost:
    data, weight = call.read[0][0], call.read[1][0]
    out = call.written[0][0]
    stride, transposed, groups = call.arguments[3], call.arguments[6], call.arguments[8]
    dims, flops = _conv_sizes(data, weight, out, stride, bool(transposed), int(groups))
    return Cost(Kind.CONVOLUTION, flops, float(call.traffic), dims)


def _convolution_backward(call: Call) -> Cost:
    out, data, weight = (shape for shape, _ in call.read[:3])
    stride, transposed, groups, mask = (call.arguments[index] for index in (4, 7, 9, 10))
    dims, flops = _conv_sizes(data, weight, out, stride, bool(transposed), int(groups))
    wanted = int(bool(mask[0])) + int(bool(mask[1]))
    return Cost(Kind.CONVOLUTION_BACKWARD, flops * max(wanted, 1), float(call.traffic), (*dims, wanted))


def _conv_sizes(
    data: Shape, weight: Shape, out: Shape, stride: Sequence[int], transposed: bool, groups: int
) -> tuple[Shape, float]:
    kernel, c_in, c_out = math.prod(weight[2:]), data[1], out[1]
    points = math.prod((data if transposed else out)[2:])
    flops = 2.0 * data[0] * points * kernel * c_in * c_out / max(groups, 1)
    step = int(stride[0]) if len(stride) else 1
    return (data[0], c_in, c_out, math.prod(data[2:]), math.prod(out[2:]), kernel, step, groups), flops


def _matmul(call: Call) -> Cost:
    matrices = [shape for shape, _ in call.read if shape]
    one, two = matrices[-2:]
    batch = one[0] if len(one) == 3 else 1
    m, k = (one[-2] if len(one) > 1 else 1), one[-1]
    n = two[-1] if len(two) > 1 else 1
    return Cost(Kind.MATMUL, 2.0 * batch * m * n * k, float(call.traffic), (batch, m, n, k))


def _attention(call: Call) -> Cost:
    backward = "backward" in call.stem
    query, key = (shape for shape, _ in call.read[int(backward) : int(backward) + 2])
    rows, size = math.prod(query[:-2]), query[-1]
    products = 5 if backward else 2  # QKᵀ and AV; backward computes QKᵀ again, and four more
    flops = products * 2.0 * rows * query[-2] * key[-2] * size
    return Cost(Kind.ATTENTION, flops, float(call.traffic), (rows, query[-2], key[-2], size, int(backward)))


def _recurrent(call: Call) -> Cost:
    """Counts a fused recurrent layer: input and hidden products of all gates and time steps; backward twice each."""
    backward = "backward" in call.stem
    data, to_input, to_hidden = (shape for shape, _ in call.read[:3])
    products = 2.0 * math.prod(data[:-1]) * (math.prod(to_input) + math.prod(to_hidden))
    dims = (data[0], data[1] if len(data) > 2 else 1, data[-1], to_hidden[-1], int(backward))
    return Cost(Kind.RECURRENT, products * (2 if backward else 1), float(call.traffic), dims)


_RULES: dict[str, Callable[[Call], Cost]] = {
    "convolution_backward": _convolution_backward,
    "convolution": _convolution,
    "_scaled_dot_product": _attention,
    "_flash_attention": _attention,
    "_efficient_attention": _attention,
    "mkldnn_rnn_layer": _recurrent,
}
