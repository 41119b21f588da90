"""Completions for the TAB key of a shell. Typer keeps those that begin like the current word; without any, the shell offers files."""

import glob
import json
import os
import shlex
from types import NoneType
from typing import Literal, get_args, get_origin

PLAIN = (str, int, float, NoneType)


def recipes_like(incomplete: str) -> list[str]:
    """Recipes by their names, and YAML files."""
    from mha_cli.config.recipes import recipe_names

    return [*recipe_names(), *_files(f"{incomplete}*.y*ml")]


def checkpoints_like(incomplete: str) -> list[str]:
    """Checkpoints and run directories, those of ``runs`` from their first letter on."""
    runs = [f"{incomplete}*/checkpoint.keras", *(["runs/*/checkpoint.keras"] if "runs/".startswith(incomplete) else [])]
    return sorted({*_files(f"{incomplete}*.keras"), *(os.path.dirname(path) for pattern in runs for path in _files(pattern))})


def settings_like(incomplete: str) -> list[str]:
    """Settings, ``section.setting=``; a single one also with its values, or with its default where there are too many to name."""
    settings = {name: values for name, values in _settings().items() if name.startswith(incomplete) or incomplete.startswith(name)}
    if len(settings) != 1:
        return [*settings]
    ((name, values),) = settings.items()
    return [name, *(name + value for value in values)]  # a shell would add a space to a single answer


def _settings() -> dict[str, dict[str, None]]:
    """Every setting as ``section.setting=``, and its values."""
    from mha_cli.config.settings import Config, MemoryData, Settings

    settings: dict[str, dict[str, None]] = {}
    for section, outer in Config.model_fields.items():
        kinds = [kind for kind in get_args(outer.annotation) or [outer.annotation] if isinstance(kind, type) and issubclass(kind, Settings)]
        inner = [(f"{section}.{name}=", field) for kind in kinds if kind is not MemoryData for name, field in kind.model_fields.items()]
        if not inner or outer.default is None:  # no section, or a section that may be null
            inner.append((f"{section}=", outer))
        for name, field in inner:
            values = get_args(field.annotation) if get_origin(field.annotation) is Literal else [field.default]
            values = [True, False] if field.annotation is bool else values
            words = [value if isinstance(value, str) else json.dumps(value) for value in values if isinstance(value, PLAIN)]
            settings.setdefault(name, {}).update(dict.fromkeys(words))  # sources share names of settings
    return settings


def _files(pattern: str) -> list[str]:
    """Paths that match a pattern, without those that a shell would have to quote."""
    return sorted(path for path in glob.glob(pattern) if shlex.quote(path) == path)
