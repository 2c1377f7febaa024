"""The two things every page we write needs: data that is safe inside a script, and templates filled in one pass."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping


def script_safe(data: object) -> str:
    """JSON that cannot end the script element it stands in, whatever the strings inside."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def filled(template: str, values: Mapping[str, str]) -> str:
    """Put values in the place of ``{{markers}}``; a value that happens to contain a marker stays as it is."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)
