"""Reports over finished runs: a terminal table, a JSON document and a self-contained HTML page."""

from elastane.sim.report.document import to_json, without_timings, write_json
from elastane.sim.report.html import write_html, write_sweep_html
from elastane.sim.report.sweep import SweepPoint, sweep_points
from elastane.sim.report.table import comparison

__all__ = [
    "SweepPoint",
    "comparison",
    "sweep_points",
    "to_json",
    "without_timings",
    "write_html",
    "write_json",
    "write_sweep_html",
]
