"""A result of an evaluation is made of numbers, text, lists and dicts, so that it can be sent and saved."""

from __future__ import annotations

from typing import Any

from elastane.train.errors import TrainError


def plain(value: Any) -> Any:
    """Tensors and NumPy numbers as plain ones, so that the result can be sent and saved."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TrainError(f"evaluate: the result has a {type(value).__name__}; return numbers, text, lists or dicts")


def numbers(result: Any) -> dict[str, float]:
    """Those parts of a result that a chart can show."""
    if isinstance(result, dict):
        return {k: float(v) for k, v in result.items() if isinstance(v, int | float)}
    return {"value": float(result)} if isinstance(result, int | float) else {}
