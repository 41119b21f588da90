"""Entries of a mapping that stand for a while: environment variables, modules."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def with_entry(mapping: MutableMapping[str, Any], name: str, value: Any) -> Iterator[None]:
    """An entry of a mapping, for the time of a block; what else comes in or goes meanwhile is left as it is."""
    before = mapping.get(name)
    mapping[name] = value
    try:
        yield
    finally:
        del mapping[name]
        if before is not None:
            mapping[name] = before
