"""The recipes that come with mha, and names from data."""

import os
from pathlib import Path

from mha_cli.errors import MhaError, printable

_INSTALLED = Path(__file__).parents[1] / "configs"
RECIPES = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).parents[2] / "configs"  # beside the package in a checkout


def recipe_names() -> list[str]:
    """The names that ``--config`` takes."""
    return sorted(path.stem for path in RECIPES.glob("*.yaml"))


def find_config(given: str) -> Path:
    """The config that ``--config`` means: a recipe by its name, else a path."""
    names = recipe_names()
    if given in names:
        return RECIPES / f"{given}.yaml"
    if os.sep not in given and "." not in given and not os.path.lexists(given):
        file = f"{given}.yaml"
        others = f"choose from {', '.join(names)}, or give the path of a YAML config"
        raise MhaError(f"{printable(given)}: no such recipe", f"did you mean {file}?" if os.path.isfile(file) else others)
    return Path(given)


def name_of_data(path: str) -> str:
    """The name of a file or folder, or pattern of them, without extensions, sheet and query; empty where nothing is left."""
    file = path.removeprefix("sqlite:").partition("#")[0]
    return os.path.basename(os.path.abspath(os.path.expanduser(file))).partition(".")[0].strip("*?[]-_")
