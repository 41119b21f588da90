"""Made-up film reviews from a small grammar, so that everything can be tried without a download.

A third are *word-order twins*, two reviews with the same tokens, equally often, and opposite classes::

    The acting was superb, not dreadful.    pos
    The acting was dreadful, not superb.    neg

Whatever ignores order (a bag of words, or attention without positions) is right on half of them. The others are *remarks* on films:
"Superb.", "We loved it!", "It could not have been better." They teach the words; a fifth of them reverses a word (*not bad*).

A twin follows a sentence plan: an opening, a construction, a subject and a closing. In a plan of the test split the row numbers of these
four agree modulo 5, in a training plan no two do. So every row occurs in training, but no two rows of a test twin ever meet there: a good
score needs the meaning of the parts, not remembered combinations. A remark is for testing if its checksum is a multiple of 5.
"""

import random
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from itertools import permutations, product
from typing import NamedTuple
from zlib import crc32

from mha_cli.config.settings import SampleData
from mha_cli.errors import MhaError, did_you_mean, printable
from mha_cli.sources.labelled_text import LabelledText, TextSource

GRAMMAR = tomllib.loads(files(__package__).joinpath("sample.toml").read_text(encoding="utf-8"))
WORDS = GRAMMAR["neutral"] | GRAMMAR["negative"], GRAMMAR["neutral"] | GRAMMAR["positive"]  # of each class, by their kinds
CONTRACTIONS = {"it is": "it's", "will not": "won't", "cannot": "can't"}  # "it is" before "is not": no "it'sn't"
CONTRACTIONS |= {f"{verb} not": f"{verb}n't" for verb in ("did", "do", "was", "is", "are", "could", "would")}
REVERSED_SHARE = OPENING_SHARE = 0.2  # of the remarks; as many have a closing
MODULUS = 5


class Plan(NamedTuple):
    """The parts of a twin but for its two adjectives."""

    opening: str
    construction: str
    subject: str
    closing: str


class SampleTexts(TextSource):
    """The built-in reviews: ``train``, ``test`` (a quarter of its size) and ``twins``, the word-order twins of the test split.

    The classes are equally frequent, so an odd number is rounded down to an even one. No review occurs twice.
    """

    name = "sample"
    splits = ("train", "test", "twins")
    class_names = ("neg", "pos")

    def __init__(self, config: SampleData) -> None:
        self._config = config

    def read(self, split: str) -> Iterator[LabelledText]:
        """The reviews of a split, shuffled, always in the same order; ``group`` is a twin's sentence plan."""
        if split not in self.splits:
            raise MhaError(f"the sample reviews have no split {printable(repr(split))}", did_you_mean(split, self.splits))
        is_test, file = split != "train", f"sample, split {split}"
        rng = random.Random(int(is_test))
        num_pairs = self._config.num_texts // (8 if is_test else 2)
        num_twin_pairs = round(num_pairs / 3)

        plans = _plans(is_test)
        words = list(product(*(of_class["adjective"] for of_class in WORDS)))
        reviews: list[tuple[str, int, Plan | None]] = []
        # Drawn without replacement, so that no twin repeats: the grammar has more than the largest num_texts asks for.
        for draw in rng.sample(range(len(plans) * len(words)), num_twin_pairs):
            plan, (negative, positive) = plans[draw // len(words)], words[draw % len(words)]
            for class_id, (x, y) in enumerate([(negative, positive), (positive, negative)]):
                clause = plan.construction.format(subject=plan.subject, x=x, y=y)
                reviews.append((_sentence(plan.opening, clause, plan.closing), class_id, plan))
        remarks: set[str] = set()
        while split != "twins" and len(remarks) < 2 * (num_pairs - num_twin_pairs):
            text = _remark(class_id := len(remarks) % 2, rng)
            if text not in remarks and (crc32(text.encode()) % MODULUS == 0) == is_test:
                remarks.add(text)
                reviews.append((text, class_id, None))
        rng.shuffle(reviews)
        for line, (text, class_id, group) in enumerate(reviews, 1):
            yield LabelledText(text, self.class_names[class_id], file, line, group)


def _remark(class_id: int, rng: random.Random) -> str:
    def filled(template: str) -> str:
        return re.sub(r"\{(-?)(\w+)\}", word, template)

    def word(slot: re.Match[str]) -> str:
        return filled(rng.choice(WORDS[class_id ^ bool(slot[1])][slot[2]]))

    clause = filled(rng.choice(GRAMMAR["reversed" if rng.random() < REVERSED_SHARE else "direct"]))
    clause = re.sub(r"\ba(?= (hon|[aeiou]))", "an", clause)
    for long, short in CONTRACTIONS.items():
        if rng.random() < 0.5:
            clause = clause.replace(long, short)
    tables = GRAMMAR["openings"], GRAMMAR["closings"]
    opening, closing = (rng.choice(table) if rng.random() < OPENING_SHARE else table[0] for table in tables)
    return _sentence(opening, clause, closing)


def _sentence(opening: str, clause: str, closing: str) -> str:
    if not opening or opening.endswith("."):
        clause = clause[0].upper() + clause[1:]
    return f"{opening} {clause}{closing}".lstrip()


@cache
def _plans(is_test: bool) -> list[Plan]:
    """All sentence plans of a split: row numbers modulo 5 all equal in the test split, all different in the training split."""
    tables = GRAMMAR["openings"], GRAMMAR["contrasts"], GRAMMAR["neutral"]["subject"], GRAMMAR["closings"]
    residues = range(MODULUS)
    patterns = [(residue,) * len(tables) for residue in residues] if is_test else list(permutations(residues, len(tables)))
    return [
        Plan(*rows)
        for pattern in patterns
        for rows in product(*(table[residue::MODULUS] for table, residue in zip(tables, pattern, strict=True)))
    ]
