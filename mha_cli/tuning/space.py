"""The searched settings, each with an Optuna distribution, in which a choice is JSON."""

import json
import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from mha_cli.config.loading import config_from_dict, config_to_dict
from mha_cli.config.settings import Config
from mha_cli.config.yaml_file import parse_yaml
from mha_cli.errors import MhaError, need, printable

FORM = "write for example --search training.learning_rate=0.001..0.01 or --search model.embed_dim=32,64,128"

BY_MAGNITUDE = 10  # a range whose end is this many times its beginning is searched on a logarithmic scale
SEARCHED = ("model", "linear", "training")  # sections whose settings can be searched: the texts are read once for all trials

NOT_SEARCHED = ("refit_linear", "refit_encoder", "ngram_embeddings", "teacher", "keep_linear", "finetune_epochs")
"""Settings of training that stay as they are: they choose the texts to learn from, and go together."""

LEAST_SHARE = 0.2  # share of the texts that trials are judged by, at least: on few, the best of many is the luckiest

Space = dict[str, Any]  # a distribution for every setting, by its name with the section


def default_search(config: Config) -> list[str]:
    """The settings that depend on the texts most, around the values of the config, in the form of ``--search``."""
    model, training = config.model, config.training
    rate, epochs, width = training.learning_rate, training.epochs, model.embed_dim
    widths = [size for size in (max(1, width // 2), width, 2 * width) if model.key_dim or not any(size % heads for heads in model.heads)]
    searched = {
        # how far the weights go, and how often they see a text
        "training.learning_rate": f"{rate / 4:g}..{min(10.0, rate * 4):g}",
        "training.epochs": f"{max(training.finetune_epochs + 1, epochs // 2)}..{2 * epochs}",
        # against learning few texts by heart
        "model.dropout": "0..0.6",
        "model.embedding_dropout": "0..0.6",
        "training.label_smoothing": "0..0.2",
    }
    if not model.pretrained:
        searched |= {"model.embed_dim": ",".join(map(str, widths)), "training.word_dropout": "0..0.3"}
    if model.max_ngram > 1 or model.subword_buckets:
        searched["model.ngram_dropout"] = "0..0.8"
    if config.linear and config.linear.max_ngram > 1:  # how long the phrases are that count by themselves
        searched["linear.max_ngram"] = f"{config.linear.max_ngram - 1}..{min(5, config.linear.max_ngram + 1)}"
    return [f"{name}={values}" for name, values in searched.items()]


def space_of(search: Sequence[str], config: Config) -> Space:
    """The distributions of ``KEY.PATH=VALUES``, a range ``LOW..HIGH`` or values between commas, each with the config's own value."""
    choices = dict(_choices(one, config) for one in search)
    need("mha tune", "tune", "optuna")
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    def distribution(values: list[Any], is_range: bool) -> Any:
        if not is_range:
            return CategoricalDistribution(list(dict.fromkeys(map(json.dumps, values))))
        low, high = min(values), max(values)
        kind = IntDistribution if all(type(value) is int for value in values) else FloatDistribution
        return kind(low, high, log=bool(low > 0 and high >= BY_MAGNITUDE * low))

    return {name: distribution(*values) for name, values in choices.items()}


def _choices(one: str, config: Config) -> tuple[str, tuple[list[Any], bool]]:
    """A setting, its values with the config's own, and whether they are a range."""
    name, _, text = one.partition("=")
    section, _, setting = name.partition(".")
    if not text.strip() or not setting:
        raise MhaError(f"--search {printable(one)}: not of the form KEY.PATH=VALUES", FORM)
    if section not in SEARCHED or setting in NOT_SEARCHED:
        raise MhaError(
            f"--search {printable(name)}: no part of a trial", "search settings of model, linear and training; --set sets any other"
        )
    if getattr(config, section) is None:
        raise MhaError(f"--search {printable(name)}: the config has no linear model", "add --set linear={}")
    is_range = ".." in text
    values = parse_yaml(f"[{text.replace('..', ', ')}]", f"--search {printable(name)}").value
    for value in values:
        with_settings(config, {name: value}, "--search")
    values = [*values, attrgetter(name)(config)]
    if is_range and not (len(values) == 3 and all(type(value) in (int, float) for value in values)):
        own = printable(json.dumps(values[-1]))
        raise MhaError(f"--search {printable(one)}: not a range of numbers, with {own} of the config", "name values, with commas between")
    return name, (values, is_range)


def own_values(space: Space, config: Config) -> dict[str, Any]:
    """The config's values of the searched settings, as those of a trial."""
    return values_of(space, {name: attrgetter(name)(config) for name in space})


def values_of(space: Space, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a trial with these settings."""
    return {name: json.dumps(value) if hasattr(space[name], "choices") else value for name, value in settings.items()}


def size_of(space: Space) -> float:
    """Number of different trials, infinite for a range of floats."""
    sizes = (
        len(one.choices) if hasattr(one, "choices") else one.high - one.low + 1 if isinstance(one.high, int) else math.inf
        for one in space.values()
    )
    return math.prod(sizes)


def settings_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a trial, from the values that it was given."""
    return {name: json.loads(value) if isinstance(value, str) else value for name, value in values.items()}


def with_settings(config: Config, settings: Mapping[str, Any], source: str) -> Config:
    """The config with other settings, by name with the section; ``source`` names them in messages."""
    whole = config_to_dict(config)
    for name, value in settings.items():
        section, _, setting = name.partition(".")
        whole[section] = {**(whole.get(section) or {}), setting: value}
    return config_from_dict(whole, source)


def trial_config(config: Config) -> Config:
    """The config by which the texts are read and trials are trained, with enough texts held out to tell trials apart."""
    share = max(config.data.validation_share, LEAST_SHARE)
    return config.changed(data={"validation_share": share}, training={"refit_linear": False, "refit_encoder": False})
