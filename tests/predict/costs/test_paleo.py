"""PALEO's own figures, found again from its formulas: matrix-product convolutions on a TITAN X, nothing lost.

Its bandwidths are in units of 2³⁰ bytes.  Figures are known to a tenth of a millisecond: 33.2 ms cannot be found more
closely than to two in a thousand.  Nobody asks the first layer for the gradient of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from elastane.predict.costs.simple import Paleo
from elastane.predict.devices import Device
from predict.costs.paleo_networks import Convolution, Layer, alexnet, inception, vgg16

TITAN_X = Device("titan-x", 12.0, 336.5 * 2**30 / 1e9, {"fp32": 6.144}, 0.0, "PALEO", "2017-01-01")
Network = Callable[[], Iterator[Layer]]


@pytest.mark.parametrize(
    ("network", "forward_ms", "backward_ms", "off"),
    [(alexnet, 33.2, 89.1, 2e-3), (vgg16, 690.1, 1567.4, 1e-3), (inception, 70.3, 150.2, 1e-3)],
)
def test_times_are_those_that_paleo_prints(
    network: Network, forward_ms: float, backward_ms: float, off: float
) -> None:
    model = Paleo(percent_of_peak=1.0)
    forward = model.times([layer.forward() for layer in network()], TITAN_X)
    _to_the_data, *needed = (each for layer in network() for each in layer.backward())
    backward = model.times(needed, TITAN_X)
    assert 1e3 * forward.total == pytest.approx(forward_ms, rel=off)
    assert 1e3 * backward.total == pytest.approx(backward_ms, rel=off)


@pytest.mark.parametrize(("network", "megabytes"), [(alexnet, 201.2), (vgg16, 553.4), (inception, 94.9)])
def test_parameters_are_as_many_as_paleo_counts(network: Network, megabytes: float) -> None:
    biases = sum(layer.c_out for layer in network() if isinstance(layer, Convolution))
    assert 4e-6 * (sum(layer.weights for layer in network()) + biases) == pytest.approx(megabytes, rel=1e-3)
