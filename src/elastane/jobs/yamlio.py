"""Reading and writing YAML without its traps.

Nothing but plain values is ever built.  Beyond that, a repeated key is an error rather than a silent choice,
``1e-3`` is a number, and ``0755``, ``1:30`` or ``2030-01-31`` stay text (YAML 1.1 reads 493, 90 and a date).
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

from elastane.errors import ElastaneError
from elastane.jobs.problems import shown

_INT, _FLOAT, _TIME = (f"tag:yaml.org,2002:{name}" for name in ("int", "float", "timestamp"))
_MOST_MERGED = 10_000
"""Keys of one mapping once ``<<`` is followed: a few nested lines can stand for billions."""
_INT_TEXT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_FLOAT_TEXT = re.compile(
    r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z"
    r"|[-+]?[0-9]+[eE][-+]?[0-9]+\Z"
    r"|[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z"
)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with plain numbers and no repeated keys."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, text) for tag, text in rules if tag not in (_INT, _FLOAT, _TIME)]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                problem = f"{shown(key.value)} is given more than once"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Follow merge keys, as far as a spec may need them."""
        super().flatten_mapping(node)
        if len(node.value) > _MOST_MERGED:
            problem = f"merge keys (<<) make more than {_MOST_MERGED:,} keys of one mapping"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


class _Dumper(yaml.SafeDumper):
    """Quotes whatever either this loader or a YAML 1.1 loader would take for a number."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Strings; only double quotes keep every kind of line break."""
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')


_Loader.add_implicit_resolver(_INT, _INT_TEXT, list("-+0123456789"))
_Loader.add_implicit_resolver(_FLOAT, _FLOAT_TEXT, list("-+0123456789."))
_Dumper.add_representer(str, _Dumper.represent_text)
_Dumper.add_implicit_resolver(_FLOAT, _FLOAT_TEXT, list("-+0123456789."))


def read_yaml(text: str, source: str) -> object:
    """The plain values in a YAML (or JSON) text; ``source`` and the line stand in front of any complaint."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a safe loader, see above
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        raise ElastaneError(f"{where}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ElastaneError(f"{source}: not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ElastaneError(f"{source}: not valid YAML: nested too deeply") from None
    except ValueError:  # Python's limit on digits; every other conversion is guarded by the patterns above
        raise ElastaneError(f"{source}: not valid YAML: a number has too many digits") from None


def write_yaml(value: object) -> str:
    """YAML in block style, keys in the order given."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
