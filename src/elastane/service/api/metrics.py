"""Figures of the service in the text format of Prometheus."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

Figures = Mapping[str, float | Mapping[str, float]]
_KEY = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)(?:\{([a-zA-Z_][a-zA-Z0-9_]*)\})?")
_PREFIX = "elastane_"


def exposition(figures: Figures) -> bytes:
    """All figures; a name that ends in ``_total`` only ever grows, any other may fall."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(figures))
    return generate_latest(registry)


class _Figures(Collector):
    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Yields one metric family per figure."""
        for key, value in sorted(self._figures.items()):
            match = _KEY.fullmatch(key)
            if match is None:
                raise ValueError(f"no name of a figure: {key!r}")
            yield _family(match[1], match[2], value)


def _family(
    name: str, label: str | None, value: float | Mapping[str, float]
) -> GaugeMetricFamily | CounterMetricFamily:
    name = _PREFIX + name.removeprefix(_PREFIX)
    words = name.removeprefix(_PREFIX).removesuffix("_total").replace("_", " ")
    said = f"{words.capitalize()}, by {label}." if label else f"{words.capitalize()}."
    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    family = kind(name, said, labels=[label] if label else [])
    if isinstance(value, Mapping):
        for which, figure in sorted(value.items()):
            family.add_metric([which], figure)
    else:
        family.add_metric([], value)
    return family
