"""Gradients leave the parameters once, whatever backward or the script made of them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from elastane.train.reduce.gradients import GradientLayout


def test_taken_gradients_are_those_of_backward_and_none_stays_behind() -> None:
    layer = nn.Linear(3, 2)
    layout = GradientLayout([list(layer.parameters())])
    layer(torch.ones(4, 3)).sum().backward()
    made = [p.grad for p in layer.parameters()]
    taken = layout.take()
    assert all(a is b for a, b in zip(taken, made, strict=True))
    assert all(p.grad is None for p in layer.parameters())


def test_a_missing_gradient_is_zero() -> None:
    unused = nn.Parameter(torch.ones(2, 3))
    (taken,) = GradientLayout([[unused]]).take()
    assert taken.shape == (2, 3)
    assert not taken.any()


@pytest.mark.filterwarnings("ignore:Using backward")
def test_other_dtypes_sparse_and_differentiable_gradients_are_converted() -> None:
    half, double = nn.Parameter(torch.ones(2, dtype=torch.bfloat16)), nn.Parameter(torch.ones(2))
    words = nn.Embedding(4, 2, sparse=True)
    layout = GradientLayout([[half, double, words.weight]])
    loss = half.float().sum() * 3 + (double**3).sum() + words(torch.tensor([1, 1])).sum()
    loss.backward(create_graph=True)
    taken = layout.take()
    assert [t.dtype for t in taken] == [torch.float32] * 3
    assert not any(t.requires_grad for t in taken)
    assert [t.tolist() for t in taken] == [[3, 3], [3, 3], [[0, 0], [2, 2], [0, 0], [0, 0]]]


def test_collecting_fills_the_vector_in_parameter_order() -> None:
    first, second = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1, 2))
    layout = GradientLayout([[first], [second]])
    vector = layout.vector(tail=3)
    vector.full.fill_(9.0)
    first.grad, second.grad = torch.tensor([1.0, 2.0]), torch.tensor([[3.0, 4.0]])
    layout.collect(vector)
    assert vector.full.tolist() == [1, 2, 3, 4, 9, 9, 9]
    assert first.grad is None


def test_publishing_shows_the_vector_to_the_optimizer() -> None:
    plain, half = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2, dtype=torch.bfloat16))
    layout = GradientLayout([[plain, half]])
    vector = layout.vector()
    vector.gradients.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    layout.publish(vector)
    assert plain.grad is not None
    assert half.grad is not None
    assert plain.grad.data_ptr() == vector.full.data_ptr()
    assert half.grad.dtype == torch.bfloat16
    assert half.grad.tolist() == [3, 4]
