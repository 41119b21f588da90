"""A config from a YAML file and overrides, and back.

Whatever does not fit becomes one line that names the file, the line, the setting and the way out.
"""

import re
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter

from mha_cli.config import settings as sections
from mha_cli.config.parameters import num_parameters
from mha_cli.config.settings import Config, LinearConfig, Settings
from mha_cli.config.yaml_file import YamlDocument, parse_yaml, read_yaml
from mha_cli.errors import MhaError, did_you_mean, printable

MAX_PARAMETERS = 1_000_000_000  # weights of the largest model, 4 GB in float32; more is taken for a typo
PLAIN = (("data", "label_separator"), ("data", "label_levels"))  # overrides that are no YAML: most separators mean something else there


def load_config(path: Path | str, overrides: Sequence[str] = (), classes: Mapping[str, Any] | None = None) -> Config:
    """Read a YAML config and apply ``key.path=value`` overrides in order; ``classes`` replaces that setting."""
    document = read_yaml(Path(path))
    if classes:
        document.value["classes"] = {**classes}
    return config_of(document, overrides)


def config_of(document: YamlDocument, overrides: Sequence[str] = ()) -> Config:
    """The config of a YAML document, which the overrides change."""
    override_keys: list[tuple[str, ...]] = []
    for override in overrides:
        override_keys.append(_apply_override(document, override, override_keys))
    return _validated(document.value, document, override_keys)


def config_to_dict(config: Config) -> dict[str, Any]:
    """The resolved config as plain values, every default spelled out; only what is set while texts or a folder decide the rest."""
    return config.model_dump(mode="json", exclude_unset=config.auto or config.model.awaits_folder)


def config_to_yaml(config: Config) -> str:
    """The resolved config as a YAML file that gives the same run again."""
    stream = StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.dump(config_to_dict(config), stream)
    return stream.getvalue()


class _Representer(SafeRepresenter):
    """Escapes what does not print; ruamel.yaml writes some of it plainly and reads it back as something else."""

    def represent_str(self, text: str) -> ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')


_Representer.add_representer(str, _Representer.represent_str)


def config_from_dict(value: object, name: str) -> Config:
    """A config from plain values, such as those in a checkpoint; ``name`` is for the error messages."""
    return _validated(value, YamlDocument(value, name, {}))


def _apply_override(document: YamlDocument, override: str, earlier: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    dotted, equals, text = override.partition("=")
    keys = tuple(dotted.strip().split("."))
    if not equals or not all(keys):
        raise MhaError(f"--set {printable(override)}: not of the form KEY.PATH=VALUE", "write for example --set model.num_heads=4")
    is_quoted = len(text) > 2 and text[0] == text[-1] and text[0] in "\"'"
    is_plain = keys in PLAIN and text not in ("", "null") and not is_quoted
    value: Any = text if is_plain else parse_yaml(text, f"--set {printable(dotted)}").value
    node = document.value
    for depth, key in enumerate(keys[:-1]):
        if node.get(key) is None:
            node[key] = {}
        node = node[key]
        if not isinstance(node, dict):
            no_section = f"{'.'.join(keys[: depth + 1])} is not a section"
            raise MhaError(f"--set {printable(dotted)}: {no_section}", "write for example --set model.num_heads=4")
    if keys[-1] == "source" and len(keys) == 2 and isinstance(node, dict) and node.get("source") != value:
        # The file's settings of another source would all be unknown to the new one; those of earlier overrides are meant for it.
        for key in [key for key in node if (keys[0], key) not in earlier]:
            del node[key]
    node[keys[-1]] = value
    return keys


def _validated(value: object, document: YamlDocument, override_keys: Sequence[tuple[str, ...]] = ()) -> Config:
    try:
        config = Config.model_validate(value)
    except ValidationError as error:
        raise _config_error(error, document, override_keys) from None
    number = num_parameters(config, config.text.vocabulary_size)
    if number > MAX_PARAMETERS:
        model = f"the model would have {number:,} weights ({number * 4 / 1e9:,.0f} GB), more than the {MAX_PARAMETERS:,} allowed"
        hint = "lower text.vocabulary_size, model.embed_dim, model.num_blocks, model.num_heads or model.feed_forward_dim"
        raise MhaError(f"{document.name}: {model}", hint)
    return config


def _config_error(error: ValidationError, document: YamlDocument, override_keys: Sequence[tuple[str, ...]]) -> MhaError:
    # Unknown keys first: a misspelt key also makes the right one missing, and it is the cause.
    # Then the deepest error, since a setting may have several types; then a bound, since its value has the right type.
    bounds = ("greater", "less")
    first = min(
        error.errors(), key=lambda item: (item["type"] != "extra_forbidden", -len(item["loc"]), not item["type"].startswith(bounds))
    )
    keys = tuple(map(str, first["loc"]))
    if keys[:1] == ("data",):
        keys = ("data", *keys[2:])  # pydantic puts the source's name between
    keys = keys[:2]  # what follows names one of several types
    dotted = printable(".".join(keys), 200)
    location = _location(keys, document, override_keys)
    setting = f"{location} {dotted or 'the config'}"
    value = printable(repr(first["input"]), 60)
    match first["type"]:
        case "extra_forbidden":
            return MhaError(f"{setting} is not a setting", _what_was_meant(keys, document.value))
        case "union_tag_invalid" | "union_tag_not_found" as kind:
            location = _location(("data", "source"), document, override_keys)
            value = printable(repr(first["input"]["source"]), 60) if kind == "union_tag_invalid" else "missing"
            return MhaError(f"{location} data.source is {value}", "choose from sample, tfds, files")
        case "missing":
            return MhaError(f"{setting} is missing", "add it")
        case "value_error":
            message = str(first["ctx"]["error"])
            if not keys:  # a rule across sections, which names its settings
                settings = [tuple(setting.split(".")) for setting in re.findall(r"[a-z]+\.[a-z_]+", message)]
                given = (setting for setting in settings if setting in override_keys or setting in document.lines)
                location = _location(next(given, settings[0] if settings else ()), document, override_keys)
            return MhaError(f"{location} {f'{dotted}: ' if dotted else ''}{message}")
        case "model_type" | "model_attributes_type":
            return MhaError(f"{setting} is {value}, not a section of settings", "write `key: value` lines below it")
    message = (first["msg"][0].lower() + first["msg"][1:]).replace("input should", "it should")
    return MhaError(f"{setting} is {value}", message)


def _location(keys: tuple[str, ...], document: YamlDocument, override_keys: Sequence[tuple[str, ...]]) -> str:
    """The origin of a setting: an override of it, of its section, or of a part of it that the file lacks; else its line in the file."""
    if keys in override_keys:
        return "--set"
    for override in override_keys:
        below = bool(keys) and override[: len(keys)] == keys and keys not in document.lines
        if below or keys[: len(override)] == override:
            return f"--set {printable('.'.join(override))}:"
    return f"{document.location(keys)}:"


_SECTIONS: dict[str, type[Settings]] = {
    "": Config,
    "data": sections.DataSettings,
    "text": sections.TextConfig,
    "model": sections.ModelConfig,
    "linear": LinearConfig,
    "training": sections.TrainingConfig,
}
_SOURCES: dict[str, type[Settings]] = {
    get_args(source.model_fields["source"].annotation)[0]: source for source in sections.DataSettings.__subclasses__()
}


def section_of(name: str) -> str:
    """The section of the setting of this name; empty for ``auto``, ``seed`` and the section ``linear``, which is given whole."""
    settings = {setting: section for section in ("", "data", "text", "model", "training") for setting in _SECTIONS[section].model_fields}
    settings = {setting: section for setting, section in settings.items() if setting == "linear" or setting not in _SECTIONS}
    if name not in settings:
        if name in LinearConfig.model_fields:
            raise MhaError(f"{name} is a setting of the linear model", f"give it as linear={{{name!r}: ...}}")
        raise MhaError(f"{printable(name)} is not a setting", did_you_mean(name, settings))
    return settings[name]


def _what_was_meant(keys: tuple[str, ...], value: Any) -> str:
    """A hint for an unknown setting: the data source that has it, the same word in another section, else a close one in its own."""
    *section, word = keys
    if section == ["data"]:
        for source, model in _SOURCES.items():
            if word in model.model_fields:
                return f"it goes with data.source={source}"
    try:
        models = {**_SECTIONS, "data": _SOURCES[value["data"]["source"]]}
    except (KeyError, TypeError):  # no section of a source that there is
        models = {**_SECTIONS, "data": sections.SampleData}
    for name, model in models.items():
        if word in model.model_fields:
            return f"did you mean {f'{name}.{word}'.lstrip('.')}?"
    return did_you_mean(word, models["".join(section)].model_fields)
