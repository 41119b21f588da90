"""Plain YAML 1.2 with the line of every key; no tags, no aliases, no duplicate keys."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent, NodeEvent, ScalarEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

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


def read_yaml(path: Path) -> YamlDocument:
    """Read a YAML mapping from a file."""
    name = shown_path(path)
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else getattr(error, "strerror", "not a file name")
        raise MhaError(f"{name}: {reason}", "give the path of a YAML config, or the name of a recipe such as sample") from None
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
        _refuse_early(text, name)
        node = yaml.compose(text)
        document.value = None if node is None else _plain(node, yaml, document, ())
    except (YAMLError, OverflowError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        problem = "text after the end of a value" if "<document start>" in problem else problem
        raise MhaError(f"{where}: not valid YAML: {printable(problem)}", "mind indentation, quotes and colons") from None
    return document


def _refuse_early(text: str, name: str) -> None:
    """Refuse aliases, tags and deep nesting by the event stream, before any tree is built."""
    depth = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        where = f"{name}:{event.start_mark.line + 1}"
        if isinstance(event, NodeEvent) and event.anchor:
            raise MhaError(f"{where}: anchors and aliases (& and *) are not allowed", "write the value out")
        if isinstance(event, CollectionStartEvent | ScalarEvent) and event.tag:
            raise MhaError(f"{where}: the tag {printable(str(event.tag))} is not allowed", "write a plain value")
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise MhaError(f"{where}: nested more than {MAX_DEPTH} deep", "a config has two levels")


def _plain(node: Node, yaml: YAML, document: YamlDocument, keys: tuple[str, ...]) -> Any:
    if isinstance(node, ScalarNode):
        value = yaml.constructor.construct_object(node)
        return _whole(value) if isinstance(value, str) else value
    if isinstance(node, SequenceNode):
        return [_plain(item, yaml, document, keys) for item in node.value]
    assert isinstance(node, MappingNode)
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, ScalarNode):
            raise MhaError(f"{document.name}:{line}: a key is not a word", "write `key: value`")
        key = _whole(str(key_node.value))
        path = (*keys, key)
        if key in mapping:
            twice = f"{printable('.'.join(path))} is set twice (first on line {document.lines[path]})"
            raise MhaError(f"{document.name}:{line}: {twice}", "keep one of them")
        document.lines[path] = line
        mapping[key] = _plain(value_node, yaml, document, path)
    return mapping


def _whole(text: str) -> str:
    """Join the two surrogates as which JSON escapes an emoji."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
