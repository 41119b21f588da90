"""A config for profiled data: a recipe with its comments, and with a data section for these files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mha_cli.config.settings import DataSettings
from mha_cli.config.yaml_file import parse_yaml
from mha_cli.errors import JOINT, MhaError, plural, printable
from mha_cli.records.record import is_number
from mha_cli.sources.labels import find_respelt

if TYPE_CHECKING:
    from mha_cli.describe.profile import DataProfile

LEAST_TO_PART = 500  # texts from which on a test part is held out of them: a fifth of fewer would say little
TEST_SHARE = 0.2
LIKELY_RESPELT = 0.25  # texts up to which a class is another one in another case, as a share of the other's; more may be meant
MOST_CLASSES = 100  # classes that are listed for their words; nobody describes more one by one
_SECTION = re.compile(r"^data:.*\n(?: .*\n)*", re.MULTILINE)
_SETTING = re.compile(r" +(\w+):")


def new_config(profile: DataProfile, recipe: Path) -> str:
    """The YAML text of a recipe with a data section for these files; the recipe's data settings that fit every source stay."""
    text = recipe.read_text(encoding="utf-8")
    match = _SECTION.search(text)
    section = match[0] if match else ""
    kept = [line for line in section.splitlines() if (setting := _SETTING.match(line)) and setting[1] in DataSettings.model_fields]
    ours = "\n".join([*_data_section(profile), *kept]) + "\n"
    found_in_them = f"{plural(profile.texts.num_texts, 'text')}, {plural(len(profile.texts.classes), 'class')}"
    written = f"# Written by `mha init` from the recipe {recipe.stem}: {found_in_them}.\n"
    config = text.replace(section, ours, 1) if section else f"{text}{ours}"
    return written + config + "".join(f"{line}\n" for line in _classes_section(profile.texts.classes))


def test_share(profile: DataProfile) -> float | None:
    """The share of the texts that the config holds out for testing; None for none. A split column itself says which texts."""
    return TEST_SHARE if profile.texts.num_texts >= LEAST_TO_PART or profile.layout.has_split else None


def test_part(profile: DataProfile) -> str:
    """The test part in words."""
    layout = profile.layout
    if layout.has_split:
        return f"the texts that column {printable(layout.part_column)} marks as test"
    if test_share(profile) is None:
        return "none: too few texts"
    return f"{TEST_SHARE:.0%} of the " + (f"groups in column {printable(layout.part_column)}" if layout.part_column else "texts")


def _data_section(profile: DataProfile) -> Iterator[str]:
    layout = profile.layout
    yield "data:"
    yield "  source: files"
    paths = [*map(_scalar, profile.data)]
    yield f"  train: {paths[0]}" if len(paths) == 1 else "\n    - ".join(["  train:", *paths])
    if (share := test_share(profile)) is None:
        yield f"  # test_share: {TEST_SHARE}  (to hold out a part for `mha evaluate`; of few texts it takes many and says little)"
    else:
        yield f"  test_share: {share}  # held out: {test_part(profile)}; training never sees them, and `mha evaluate` scores them"
    yield f"  # test: FILE  (other texts for `mha evaluate`{', and no test_share' if share else ''})"
    if layout.columns:
        text = ", ".join(map(_column, layout.text_column.split(JOINT)))
        yield f"  text_column: {f'[{text}]' if JOINT in layout.text_column else text}  # {printable(layout.text_reason, 200)}"
        if layout.label_columns:
            labels = ", ".join(map(_column, layout.label_columns))
            yield f"  label_columns: [{labels}]  # each is a label; `label_column: NAME` instead learns one of them alone"
        else:
            yield f"  label_column: {_column(layout.label_column)}  # {printable(layout.label_reason, 200)}"
    if layout.label_separator:
        several = f"several labels per text, such as {printable(layout.label_example, 40)}"
        yield f"  label_separator: {json.dumps(layout.label_separator)}  # {several}"
    if layout.label_levels:
        yield f"  label_levels: {json.dumps(layout.label_levels)}  # labels have levels, from coarse to fine; null takes each as a whole"
    respelt, classes = find_respelt(profile.texts.classes), profile.texts.classes
    for sure, reason in ((True, "labels that differ in case alone"), (False, "for labels that mean the same; both spellings are frequent")):
        pairs = [(name, other) for name, other in respelt.items() if (classes[name] <= LIKELY_RESPELT * classes[other]) == sure]
        if merged := ", ".join(f"{_scalar(name)}: {_scalar(other)}" for name, other in pairs):
            yield f"  {'' if sure else '# '}merge_labels: {{{merged}}}  {f'# {reason}' if sure else f'({reason})'}"
    if profile.dialect.encoding:
        yield f"  encoding: {profile.dialect.encoding}"
    if not profile.dialect.quoting:
        yield "  quoting: false"


def _classes_section(classes: Mapping[str, int]) -> Iterator[str]:
    """The classes with empty words; another spelling of a class has none."""
    if len(names := sorted(classes.keys() - find_respelt(classes))) <= MOST_CLASSES:
        yield "# Words about classes help where labels are few, such as `delivery: the parcel is late or lost`. Fill in any of them."
        yield "# Only a pretrained encoder or word vectors (model.pretrained, model.vectors) use them; other models ignore them."
        yield from ("classes:", *(f'  {_scalar(name)}: ""' for name in names))


def _column(name: str) -> str:
    return name if is_number(name) and name[0] != "0" else _scalar(name)


def _scalar(text: str) -> str:
    """A string in YAML, in quotes where it would otherwise be something else."""
    try:
        plain = text.isprintable() and all(parse_yaml(form, "").value == [text] for form in (f"- {text}", f"[{text}]"))
    except MhaError:
        plain = False
    return text if plain else json.dumps(text)
