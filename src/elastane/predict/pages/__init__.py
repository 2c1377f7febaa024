"""Renders predictions as HTML pages that need no network: styles, chart library, data and script inside."""

from elastane.predict.pages.explained import write_explained
from elastane.predict.pages.runs import write_runs

__all__ = ["write_explained", "write_runs"]
