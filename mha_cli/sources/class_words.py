"""Classes in words, from a file: a name and a line about it, or several lines."""

from pathlib import Path
from typing import Any

from mha_cli.config.yaml_file import read_yaml
from mha_cli.errors import MhaError, printable, shown_path
from mha_cli.records.reader import Reading
from mha_cli.records.readers import read_records
from mha_cli.records.record import Columns
from mha_cli.sources.labels import class_name
from mha_cli.sources.raw_files import file_pieces

COLUMNS = Columns("words", ("class",), "the header class,words", "the header class,words", required=True)


def read_class_words(path: Path) -> dict[str, Any]:
    """What a file says about classes, for the setting ``classes``: YAML, or CSV with the columns ``class`` and ``words``."""
    name, words = shown_path(path), dict[str, Any]()
    if path.suffix.lower() in (".yaml", ".yml"):
        document = read_yaml(path, "a YAML file with a line `name: words` for each class")
        for given, lines in document.value.items():
            place = document.location((given,))
            if not all(isinstance(line, str | None) for line in (lines if isinstance(lines, list) else [lines])):
                raise MhaError(f"{place}: the words of {printable(given)} are no text", "write a line, or a list of lines")
            words[class_name(given, place)] = lines
    else:
        for record in read_records("csv", file_pieces(str(path)), Reading(name, COLUMNS)):
            words.setdefault(class_name(record.fields[0], f"{name}:{record.line}"), []).append(record.text)
    if not words:
        raise MhaError(f"{name}: no class in it", "write a line `name: words` for each class, or CSV with the columns class and words")
    return words
