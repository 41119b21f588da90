"""What a shell completes on TAB: recipes, settings, formats, checkpoints. Where nothing of ours fits, it offers files."""

from __future__ import annotations

import glob
import json
import os
import shlex
from collections.abc import Iterator, MutableMapping
from types import NoneType
from typing import Any, Literal, get_args, get_origin

EXPORT_FORMATS = ("int8", "litert", "onnx", "saved-model")
BROKEN_OFF = "_MHA_BROKEN_OFF"
"""Environment variable for what bash has broken off the current word: all up to a = sign."""


def join_words(environment: MutableMapping[str, str] = os.environ) -> None:
    """Undo that bash breaks words at = signs, where it asks what to complete; the current word is then what stands behind the last one."""
    if environment.get("_MHA_COMPLETE") != "complete_bash":
        return
    given = environment.get("COMP_WORDS", "").split("\n")[: int(environment.get("COMP_CWORD", "0")) + 1]
    words, joins = [""], False
    for word in given:
        if word == "=" and not joins:
            joins = True
            words[-1:] = [words[-1], ""] if words[-1].startswith("-") else [f"{words[-1]}="]
        elif joins:
            words[-1] += word
            joins = False
        else:
            words.append(word)
    if given[-2:-1] == ["="] or given[-1] == "=":
        before, equals, words[-1] = words[-1].rpartition("=")
        environment[BROKEN_OFF] = before + equals
    environment["COMP_WORDS"], environment["COMP_CWORD"] = "\n".join(words[1:]), str(len(words) - 2)


def recipes_like(incomplete: str) -> list[str]:
    """Recipes by their names, and YAML files."""
    from mha_cli.config.recipes import recipe_names

    return [*(name for name in recipe_names() if name.startswith(incomplete)), *_files(f"{glob.escape(incomplete)}*.y*ml")]


def export_formats_like(incomplete: str) -> list[str]:
    """Formats of ``mha export``."""
    return [name for name in EXPORT_FORMATS if name.startswith(incomplete)]


def checkpoints_like(incomplete: str) -> list[str]:
    """Checkpoints and run directories, those of ``runs`` from their first letter on."""
    start = glob.escape(incomplete)
    runs = [f"{start}*/checkpoint.keras", *(["runs/*/checkpoint.keras"] if "runs/".startswith(incomplete) else [])]
    return sorted({*_files(f"{start}*.keras"), *(os.path.dirname(path) for pattern in runs for path in _files(pattern))})


def settings_like(incomplete: str) -> list[str]:
    """Settings, ``section.setting=``; of a single one its values, or the default where there are too many to name."""
    before = os.environ.get(BROKEN_OFF, "")
    start = before + incomplete
    found = [(name, values) for name, values in _settings() if name.startswith(start) or start.startswith(name)]
    answers = [name for name, _ in found]
    if len(found) == 1:
        ((name, values),) = found
        # The name alone as well, if there are not several values: a shell puts a space behind an only answer.
        answers = [name + value for value in values] + [name] * (len(values) < 2 and start != name)
    return [answer.removeprefix(before) for answer in answers if answer.startswith(start)]


def _settings() -> Iterator[tuple[str, list[str]]]:
    """Every setting as ``section.setting=``, and its values."""
    from mha_cli.config.settings import Config, GivenData, Settings

    values: dict[str, dict[str, None]] = {}
    for section, outer in Config.model_fields.items():
        kinds = [kind for kind in get_args(outer.annotation) or [outer.annotation] if isinstance(kind, type) and issubclass(kind, Settings)]
        fields = [field for kind in kinds if kind is not GivenData for field in kind.model_fields.items()] or [("", outer)]
        for name, field in fields:
            key = f"{section}.{name}=" if name else f"{section}="
            values.setdefault(key, {}).update(dict.fromkeys(_values(field.annotation, field.default)))
    return ((name, list(known)) for name, known in values.items())


def _values(kind: Any, default: object) -> list[str]:
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    if kind is bool:
        return ["true", "false"]
    plain = isinstance(default, str | int | float | NoneType)
    return [default if isinstance(default, str) else json.dumps(default)] if plain else []


def _files(pattern: str) -> list[str]:
    """Paths that fit a pattern, but for those that a shell would have to quote."""
    return sorted(path for path in glob.glob(pattern) if shlex.quote(path) == path)
