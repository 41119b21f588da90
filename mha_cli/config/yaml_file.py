"""Plain YAML 1.2 with the line of every key; no tags, no aliases, no duplicate keys."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent, Event, NodeEvent, ScalarEvent, SequenceStartEvent
from ruamel.yaml.nodes import ScalarNode

from mha_cli.errors import MhaError, printable, shown_path

MAX_BYTES = 100_000
MAX_DEPTH = 20


@dataclass
class YamlDocument:
    """The value of a YAML text, with the line of every key."""

    value: Any  # plain dicts, lists and scalars
    name: str  # file name, for messages
    lines: dict[tuple[str, ...], int] = field(default_factory=dict)  # line (from 1) of every key, by its path of keys

    def location(self, keys: tuple[str, ...]) -> str:
        """``name:line`` of the nearest key in the text."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.lines:
                return f"{self.name}:{self.lines[keys[:length]]}"
        return self.name


def read_yaml(path: Path, wanted: str = "the path of a YAML config, or the name of a recipe such as sample") -> YamlDocument:
    """Read a YAML mapping from a file; ``wanted`` says what to give where there is none."""
    name = shown_path(path)
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else getattr(error, "strerror", "not a file name")
        raise MhaError(f"{name}: {reason}", f"give {wanted}") from None
    if len(raw) > MAX_BYTES:
        raise MhaError(f"{name}: larger than {MAX_BYTES:,} bytes", "a config is a short YAML file")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MhaError(f"{name}: not UTF-8 at byte {error.start}", "save it as UTF-8") from None
    document = parse_yaml(text, name)
    document.value = {} if document.value is None else document.value
    if not isinstance(document.value, dict):
        raise MhaError(f"{name}: not a mapping of settings", "write `section:` lines with `key: value` lines below them")
    return document


def parse_yaml(text: str, name: str) -> YamlDocument:
    """Read plain YAML; see ``read_yaml``."""
    yaml = YAML(typ="safe", pure=True)
    document = YamlDocument(None, name)
    try:
        events = _plain_events(yaml, text, name)
        if first := next(events, None):
            document.value = _value(first, events, yaml, document, ())
        if another := next(events, None):
            raise MhaError(f"{name}:{another.start_mark.line + 1}: not valid YAML: a second document", "keep one of them")
    except (YAMLError, OverflowError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        location = f"{name}:{mark.line + 1}" if mark else name
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        problem = "text after the end of a value" if "<document start>" in problem else problem
        raise MhaError(f"{location}: not valid YAML: {printable(problem)}", "mind indentation, quotes and colons") from None
    return document


def _plain_events(yaml: YAML, text: str, name: str) -> Iterator[Event | None]:
    """The events at which values begin, and None at the end of a collection; aliases, tags and deep nesting are refused."""
    depth = 0
    for event in yaml.parse(text):
        location = f"{name}:{event.start_mark.line + 1}"
        if isinstance(event, NodeEvent) and event.anchor:
            raise MhaError(f"{location}: anchors and aliases (& and *) are not allowed", "write the value out")
        if isinstance(event, CollectionStartEvent | ScalarEvent) and event.tag:
            raise MhaError(f"{location}: the tag {printable(str(event.tag))} is not allowed", "write a plain value")
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise MhaError(f"{location}: nested more than {MAX_DEPTH} deep", "a config has two levels")
        if isinstance(event, NodeEvent | CollectionEndEvent):
            yield None if isinstance(event, CollectionEndEvent) else event


def _value(event: Any, events: Iterator[Event | None], yaml: YAML, document: YamlDocument, keys: tuple[str, ...]) -> Any:
    """The value that begins with an event; the events up to its end are taken."""
    if isinstance(event, ScalarEvent):
        tag = yaml.resolver.resolve(ScalarNode, event.value, event.implicit)
        value = yaml.constructor.construct_object(ScalarNode(tag, event.value, event.start_mark, event.end_mark))
        return _whole(value) if isinstance(value, str) else value
    if isinstance(event, SequenceStartEvent):
        return [_value(item, events, yaml, document, keys) for item in iter(events.__next__, None)]
    mapping: dict[str, Any] = {}
    for key_event in iter(events.__next__, None):
        line = key_event.start_mark.line + 1
        if not isinstance(key_event, ScalarEvent):
            raise MhaError(f"{document.name}:{line}: a key is not a word", "write `key: value`")
        key = _whole(str(key_event.value))
        path = (*keys, key)
        if key in mapping:
            twice = f"{printable('.'.join(path))} is set twice (first on line {document.lines[path]})"
            raise MhaError(f"{document.name}:{line}: {twice}", "keep one of them")
        document.lines[path] = line
        mapping[key] = _value(next(events), events, yaml, document, path)
    return mapping


def _whole(text: str) -> str:
    """Join the two surrogates as which JSON escapes an emoji."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
