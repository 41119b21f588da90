"""Plain YAML 1.2 with the line of every key; no tags, no aliases, no duplicate keys, no depth or size without end."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent, NodeEvent, ScalarEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from mha_cli.errors import MhaError, printable, shown_path

VERSION = "1.2"
MAX_BYTES = 100_000
MAX_DEPTH = 20
MAX_NODES = 2_000
"""Keys and values together; a config has less than a hundred settings."""
MAX_INTEGER_BITS = 256

_TOML = re.compile(r"(?:[ \t]*(?:#.*)?\n)*[ \t]*(?:\[\[?[\w.\"' -]+\]|[\w.\"'-]+[ \t]*=)")
"""A text whose first line, after comments, is a table's header or ``key =``."""


@dataclass
class YamlDocument:
    """The value of a YAML text, with the line of every key.

    Args:
        value: plain dicts, lists and scalars.
        name: file name, for messages.
        lines: line (from 1) of every key, by its path of keys.
    """

    value: Any
    name: str
    lines: dict[tuple[str, ...], int] = field(default_factory=dict)

    def location(self, keys: tuple[str, ...]) -> str:
        """``name:line`` of the nearest key that stands in the text."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.lines:
                return f"{self.name}:{self.lines[keys[:length]]}"
        return self.name


def read_yaml(path: Path) -> YamlDocument:
    """Read a YAML mapping from a file."""
    name = shown_path(path)
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            raw = file.read(MAX_BYTES + 1)
            if not raw and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
                raise MhaError(f"{name}: a pipe that nothing comes out of", "give a file, or write to the pipe first")
    except FileNotFoundError:
        raise MhaError(f"{name}: no such file", "give the path of a YAML config, or the name of a recipe such as sample") from None
    except OSError as error:
        raise MhaError(f"{name}: {error.strerror}", "give the path of a YAML config that can be read") from None
    except ValueError:
        raise MhaError(f"{name}: not a file name", "give the path of a YAML config, or the name of a recipe such as sample") from None
    if len(raw) > MAX_BYTES:
        raise MhaError(f"{name}: larger than {MAX_BYTES:,} bytes", "a config is a short YAML file")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MhaError(f"{name}: not UTF-8 at byte {error.start}", "save it as UTF-8") from None
    if _TOML.match(text):
        raise MhaError(f"{name}: looks like TOML or INI; a config is YAML", "write `section:` lines with `key: value` lines below them")
    document = parse_yaml(text, name)
    if document.value is None:
        document.value = {}
    if not isinstance(document.value, dict):
        raise MhaError(f"{name}: not a mapping of settings", "write `section:` lines with `key: value` lines below them")
    return document


def _open_at_once(path: str, flags: int) -> int:
    """Open a named pipe without waiting for somebody to write to it; one that is written to is then read to its end."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor


def parse_yaml(text: str, name: str) -> YamlDocument:
    """Read plain YAML; see ``read_yaml``."""
    _refuse_early(text, name)
    yaml = YAML(typ="safe", pure=True)
    document = YamlDocument(None, name)
    try:
        node = yaml.compose(text)
        document.value = None if node is None else _plain(node, yaml, document, ())
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        problem = "text after the end of a value" if "<document start>" in problem else problem
        raise MhaError(f"{where}: not valid YAML: {printable(problem)}", "mind indentation, quotes and colons") from None
    except (OverflowError, ValueError) as error:
        raise MhaError(f"{name}: not valid YAML: {printable(str(error))}", "mind indentation, quotes and colons") from None
    return document


def _refuse_early(text: str, name: str) -> None:
    """Refuse other versions of YAML by the text, and aliases, tags, depth and size by the event stream, before any tree is built."""
    for number, row in enumerate(text.split("\n"), start=1):
        if row.startswith("%YAML") and row.split()[1:2] != [VERSION]:  # YAML 1.1 would make a truth value of the word `yes`
            raise MhaError(f"{name}:{number}: {printable(row.strip(), 40)} is not read, only YAML {VERSION}", "leave the line out")
        if row.strip() and row[0] not in "%#":
            break  # directives stand at the beginning
    depth = nodes = 0
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            line = event.start_mark.line + 1
            if isinstance(event, NodeEvent) and event.anchor:
                raise MhaError(f"{name}:{line}: anchors and aliases (& and *) are not allowed", "write the value out")
            if isinstance(event, CollectionStartEvent | ScalarEvent):
                nodes += 1
                if event.tag:
                    raise MhaError(f"{name}:{line}: the tag {printable(str(event.tag))} is not allowed", "write a plain value")
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            if nodes > MAX_NODES:
                raise MhaError(f"{name}:{line}: more than {MAX_NODES:,} keys and values", "a config has less than a hundred settings")
            if depth > MAX_DEPTH:
                raise MhaError(f"{name}:{line}: nested more than {MAX_DEPTH} deep", "a config has two levels")
    except (YAMLError, OverflowError, ValueError):
        return  # composing the tree meets the same fault and reports it


def _plain(node: Node, yaml: YAML, document: YamlDocument, keys: tuple[str, ...]) -> Any:
    if isinstance(node, ScalarNode):
        value = yaml.constructor.construct_object(node)
        if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:  # Python refuses to print the longest ones
            line = node.start_mark.line + 1
            raise MhaError(f"{document.name}:{line}: the number {printable(node.value, 40)} is too large", "write a smaller one")
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
        if key in mapping:
            dotted = ".".join((*keys, key))
            raise MhaError(
                f"{document.name}:{line}: {printable(dotted)} stands twice (first on line {document.lines[(*keys, key)]})",
                "keep one of them",
            )
        document.lines[(*keys, key)] = line
        mapping[key] = _plain(value_node, yaml, document, (*keys, key))
    return mapping


def _whole(text: str) -> str:
    """Text in which two halves of a character that stand side by side are that character: JSON escapes an emoji as two."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
