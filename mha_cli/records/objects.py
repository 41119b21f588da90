"""Objects, as JSON lines and Parquet hold them: what a key means, and their values in words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from mha_cli.errors import printable

ABSENT: Final = object()
"""What stands where an object has no such key."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def value_at(found: Mapping[str, object], key: str) -> object:
    """The value of a key, in which a dot leads into a nested object unless a key has the dot itself; ``ABSENT`` if there is none."""
    while key not in found:
        first, dot, key = key.partition(".")
        inner = found.get(first)
        if not dot or not isinstance(inner, Mapping):
            return ABSENT
        found = inner
    return found[key]


def dotted_keys(found: Mapping[str, object]) -> Iterator[str]:
    """The keys of an object, and those of a nested one with a dot before them."""
    waiting = [("", iter(found.items()))]
    while waiting:
        before, items = waiting[-1]
        for key, value in items:
            if isinstance(value, Mapping) and value:
                waiting.append((f"{before}{key}.", iter(value.items())))
                break
            yield before + key
        else:
            waiting.pop()


def json_kind(value: object) -> str:
    """A JSON value in words."""
    if value is None:
        return "null"
    if isinstance(value, bool | int | float):
        return f"{'the fraction' if isinstance(value, float) else 'the value'} {printable(json.dumps(value))}"
    if isinstance(value, str):
        return f'the string "{printable(value, 40)}"'
    return "a list" if isinstance(value, list) else "an object"


def without_surrogates(text: str) -> str:
    """Half a surrogate pair, which JSON can spell and UTF-8 cannot, becomes U+FFFD, as a byte that is not UTF-8 does elsewhere."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)
