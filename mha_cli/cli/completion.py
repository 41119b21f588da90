"""What a shell completes on TAB. Typer takes what begins as the current word does; where nothing fits, the shell offers files."""

import glob
import json
import os
import shlex
from collections.abc import Iterator
from itertools import pairwise
from types import NoneType
from typing import Literal, get_args, get_origin

PLAIN = (str, int, float, NoneType)
BROKEN_OFF = "_MHA_BROKEN_OFF"  # environment variable for what bash has broken off the current word: all up to a = sign


def join_words() -> None:
    """Undo that bash breaks words at = signs when it asks what to complete; the current word is then what follows the last one."""
    environment = os.environ
    if environment.get("_MHA_COMPLETE") != "complete_bash":
        return
    number = int(environment["COMP_CWORD"])
    given, words = environment["COMP_WORDS"].split("\n")[: number + 1], [""]
    for before, word in pairwise(["", *given]):
        if word == "=" and before != "=":
            words[-1:] = [words[-1], ""] if words[-1].startswith("-") else [f"{words[-1]}="]
        elif before == "=":
            words[-1] += word
        else:
            words.append(word)
    if "=" in given[-2:]:
        before, equals, words[-1] = words[-1].rpartition("=")
        environment[BROKEN_OFF] = before + equals
    environment["COMP_WORDS"], environment["COMP_CWORD"] = "\n".join(words[1:]), str(number - len(given) + len(words) - 1)


def recipes_like(incomplete: str) -> list[str]:
    """Recipes by their names, and YAML files."""
    from mha_cli.config.recipes import recipe_names

    return [*recipe_names(), *_files(f"{incomplete}*.y*ml")]


def checkpoints_like(incomplete: str) -> list[str]:
    """Checkpoints and run directories, those of ``runs`` from their first letter on."""
    runs = [f"{incomplete}*/checkpoint.keras", *(["runs/*/checkpoint.keras"] if "runs/".startswith(incomplete) else [])]
    return sorted({*_files(f"{incomplete}*.keras"), *(os.path.dirname(path) for pattern in runs for path in _files(pattern))})


def settings_like(incomplete: str) -> list[str]:
    """Settings, ``section.setting=``; of a single one its values, or the default where there are too many to name."""
    before = os.environ.get(BROKEN_OFF, "")
    start = before + incomplete
    found = [(name, values) for name, values in _settings() if name.startswith(start) or start.startswith(name)]
    answers = [name for name, _ in found]
    if len(found) == 1:
        ((name, values),) = found
        # The name alone as well, unless there are several values: a shell adds a space after a single answer.
        answers = [name + value for value in values] + [name] * (len(values) < 2 and start != name)
    return [answer.removeprefix(before) for answer in answers if answer.startswith(start)]


def _settings() -> Iterator[tuple[str, list[str]]]:
    """Every setting as ``section.setting=``, and its values."""
    from mha_cli.config.settings import Config, MemoryData, Settings

    found: dict[str, dict[str, None]] = {}
    for section, outer in Config.model_fields.items():
        kinds = [kind for kind in get_args(outer.annotation) or [outer.annotation] if isinstance(kind, type) and issubclass(kind, Settings)]
        inner = [(f"{section}.{name}=", field) for kind in kinds if kind is not MemoryData for name, field in kind.model_fields.items()]
        if not inner or outer.default is None:  # a setting of its own, or a section that may be null
            inner.append((f"{section}=", outer))
        for name, field in inner:
            values = get_args(field.annotation) if get_origin(field.annotation) is Literal else [field.default]
            values = [True, False] if field.annotation is bool else values
            words = [value if isinstance(value, str) else json.dumps(value) for value in values if isinstance(value, PLAIN)]
            found.setdefault(name, {}).update(dict.fromkeys(words))  # a source's, and another's of the same name
    return ((name, list(words)) for name, words in found.items())


def _files(pattern: str) -> list[str]:
    """Paths that fit a pattern, but for those that a shell would have to quote."""
    return sorted(path for path in glob.glob(pattern) if shlex.quote(path) == path)
