"""Decide from the texts the settings that a config with ``auto: true`` leaves open; docs/recipes.md gives the reasons."""

import json
import textwrap
from dataclasses import dataclass
from typing import Any

from mha_cli.config.loading import config_from_dict, config_to_dict
from mha_cli.config.parameters import num_outputs
from mha_cli.config.settings import Config
from mha_cli.errors import plural

LONG_TEXT = 100  # length of the median text, in tokens, above which n-grams are weighted by position
SPELT_WORD = 3.0  # mean length of a distinct word, in characters, from which subwords are read; shorter words have few
MOST_WITH_SUBWORDS = 5_000_000  # tokens of all texts up to which subwords are read; with more, whole words suffice
TAUGHT_TEXTS = 1_000  # texts per class from which the linear model teaches the encoder; with fewer, its out-of-fold answers are too poor
ROWS_PER_VECTOR = 32  # rows of the linear model's table per word vector, since an n-gram in the same row counts as that word
MANY_TEXTS = 200_000  # texts from which one epoch suffices
FEW_TEXTS = 2_000  # texts below which a pretrained encoder is trained for few labels
LINE_WIDTH = 79
MOST_IDS = 30_000  # largest vocabulary; with word vectors the usual one, since their words need not be in the texts
MOST_LINEAR_WEIGHTS = 1 << 25  # most numbers in the linear model's table


@dataclass(frozen=True)
class Facts:
    """The numbers that decide settings, of the texts to learn from and to validate with."""

    num_texts: int
    num_classes: int
    num_tokens: int
    num_words: int  # distinct tokens, with the known ones
    characters: float  # mean length of a distinct token with a letter, in characters; 0 if there is none
    median_length: int  # tokens that half of the texts do not exceed
    usual_length: int  # tokens that 98 % of the texts do not exceed
    known_words: int = 0  # tokens that the model to train on knows; 0 without one
    new_share: float = 1.0  # share of the texts that it has not learnt from, or with another label; 1 without one

    def __str__(self) -> str:
        """The facts in a line."""
        characters = f", {self.characters:.1f} characters on average" if self.characters else ""  # of emojis alone: no letter
        return (
            f"{plural(self.num_texts, 'text')} in {plural(self.num_classes, 'class')}; "
            f"half are up to {plural(self.median_length, 'token')} long, "
            f"98 % up to {self.usual_length:,}; {self.num_words:,} distinct tokens{characters}"
        )


def decide(config: Config, facts: Facts) -> Config:
    """The config with its open settings decided by the rules, and ``auto`` off."""
    return config_from_dict(config.merged({"auto": False} | rules(facts, config_to_dict(config))), "auto")


def in_words(config: Config, facts: Facts) -> list[str]:
    """The facts and the settings decided from them, in lines that the usual terminal does not break."""
    lines = [str(facts), "decided from them, where the config says nothing:"]
    for section, settings in rules(facts, config_to_dict(config)).items():
        if settings:
            values = ", ".join(f"{name}={json.dumps(value, separators=(',', ':'))}" for name, value in settings.items())
            lines.append(f"  {section}: {values}")
    return [part for line in lines for part in textwrap.wrap(line, LINE_WIDTH, subsequent_indent="    ", break_long_words=False)]


def rules(facts: Facts, named: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Values of the settings that the texts decide and that ``named`` lacks, by section; a feature that is off has its settings off."""
    data, model = named.get("data", {}), named.get("model", {})
    linear, has_ngrams = named.get("linear"), model.get("max_ngram", 1) > 1
    has_linear = linear is not None
    spelt = facts.characters >= SPELT_WORD and facts.num_tokens <= MOST_WITH_SUBWORDS
    pretrained = model.get("pretrained") is not None
    has_subwords = model.get("subword_buckets", spelt and not pretrained) or (spelt and has_linear)
    characters = named.get("text", {}).get("subword_characters", 16 if has_subwords else 0)
    is_weighed = facts.median_length > LONG_TEXT and model.get("positions") != "none"
    has_unlabelled = data.get("unlabelled") or data.get("unlabelled_split")  # the linear model would label them, for every epoch
    reads_made = named.get("training", {}).get("teacher") not in (None, "linear")
    is_multi_label = named.get("task") == "multi-label"
    teaches = facts.num_texts >= TAUGHT_TEXTS * facts.num_classes and not (pretrained or is_multi_label)
    stands_alone = named.get("training", {}).get("keep_linear") is False
    is_taught = has_linear and teaches and not (has_unlabelled or reads_made)
    least, most, texts_in_all = (3, 20, 20_000) if pretrained else (2, 5 if reads_made else 10, 100_000)
    if facts.num_texts >= MANY_TEXTS and not pretrained:
        least = 1
    if is_taught:
        most = max(5, min(most, round(50_000 / facts.num_texts)))
    has_vectors = model.get("vectors") is not None
    most_rows = MOST_LINEAR_WEIGHTS // num_outputs(facts.num_classes, is_multi_label)
    decided = {
        "data": {"validation_share": round(min(0.2, max(0.05, 200 / facts.num_texts)), 3)},
        "text": {
            "vocabulary_size": MOST_IDS if has_vectors else max(3, min(MOST_IDS + facts.known_words, facts.num_words + 2)),
            "sequence_length": max(16, min(800, facts.usual_length)),
            "subword_characters": characters,
        },
        "model": {
            "ngram_buckets": min(1 << 16, _power_of_two(facts.num_tokens)) if has_ngrams else 0,
            "subword_buckets": 1 << 15 if characters and not pretrained else 0,
        },
        "linear": {
            "buckets": min(
                1 << 21,
                _power_of_two(max(8 * facts.num_tokens, has_vectors * ROWS_PER_VECTOR * MOST_IDS)),
                _power_of_two(most_rows // 2 + 1),
            ),
            "end_decay": 50 if is_weighed else 0,
            "context_windows": [5, 25] if is_weighed else [],
        },
        "training": {
            "epochs": max(1, round(facts.new_share**2 * max(least, min(most, round(texts_in_all / facts.num_texts))))),
            "batch_size": 32 if facts.num_texts >= 1_000 else 8,
            "teacher": "linear" if is_taught or (has_linear and stands_alone) else None,
        },
    }
    if pretrained:
        is_few = facts.num_texts < FEW_TEXTS
        decided["training"] |= {"batch_size": 16 if is_few else 32, "few_labels": is_few}
    return {
        section: {name: value for name, value in settings.items() if name not in named.get(section, {})}
        for section, settings in decided.items()
        if section != "linear" or has_linear
    }


def _power_of_two(number: int) -> int:
    """The smallest power of two that is no less."""
    return 1 << max(0, number - 1).bit_length()
