"""Objects, as JSON lines and Parquet hold them: what a key means, and their values in words."""

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from mha_cli.errors import printable

ABSENT: Final = object()  # the value of a key that an object does not have
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSAFE = re.compile("[\x80-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def value_at(values: Mapping[str, object], key: str) -> object:
    """The value of a key, in which a dot leads into a nested object unless a key has the dot itself; ``ABSENT`` if there is none."""
    if key in values:
        return values[key]
    for place, character in enumerate(key):
        inner = values.get(key[:place]) if character == "." else None
        if isinstance(inner, Mapping) and (value := value_at(inner, key[place + 1 :])) is not ABSENT:
            return value
    return ABSENT


def dotted_keys(values: Mapping[str, object]) -> Iterator[str]:
    """The keys of an object, and those of a nested one with a dot before them."""
    waiting = deque(values.items())
    while waiting:
        key, value = waiting.popleft()
        if isinstance(value, Mapping) and value:
            waiting.extendleft(reversed([(f"{key}.{inner}", each) for inner, each in value.items()]))
        else:
            yield key


def plain_json(value: object, default: Callable[[Any], object] | None = None, indent: int | None = None) -> str:
    """A value as JSON that any reader takes, with its characters as they are.

    Characters that a terminal obeys or that end a line, and half surrogate pairs, which UTF-8 lacks, are escaped. Infinity and NaN become
    null.
    """
    try:
        text = json.dumps(value, default=default, allow_nan=False, ensure_ascii=False, indent=indent)
    except ValueError:
        plain = json.loads(json.dumps(value, default=default), parse_constant=lambda _: None)
        text = json.dumps(plain, ensure_ascii=False, indent=indent)
    return text if text.isascii() else _UNSAFE.sub(lambda character: f"\\u{ord(character[0]):04x}", text)


def json_line(value: object, default: Callable[[Any], object] | None = None) -> bytes:
    """A value as one line of JSON, in UTF-8."""
    return plain_json(value, default).encode() + b"\n"


def as_text(value: object) -> str:
    """A value of a record in a cell: a string itself, None nothing, anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else plain_json(value)


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
