"""Made-up film reviews from a small grammar, so that everything can be tried without a download.

A score on them says nothing about real reviews. They show one thing exactly: that word order reaches the answer. Two thirds are
*word-order twins*, two reviews with the same tokens, equally often, and opposite classes::

    The acting was superb, not dreadful.    pos
    The acting was dreadful, not superb.    neg

Whatever ignores order (a bag of words, or attention without positions) is right on half of them. The adjectives of the others agree.

A review follows a sentence plan: an opening, a construction, a subject and a closing. In a plan of the test split the row numbers of these
four agree modulo 5, in a training plan no two do. So every row occurs in training, but no two rows of a test review ever meet there: a good
score needs the meaning of the parts, not remembered combinations.
"""

import random
from collections.abc import Iterator
from functools import cache
from itertools import permutations, product
from typing import NamedTuple

from mha_cli.config.settings import SampleData
from mha_cli.data.labelled_text import LabelledText, TextSource
from mha_cli.errors import MhaError, did_you_mean, printable

# A row's position in its table decides which plans are for testing: a new row changes every review, and
# the four plan tables keep a multiple of 5 rows, so that all rows are equally frequent.

# In rows of five, a long one on two lines: a column is a remainder modulo 5.
# fmt: off
# Neutral. Every row but the first is of one length, so that each construction is met at the same positions in training as in testing.
OPENINGS = (
    "", "Well,", "Overall,", "Honestly,", "Frankly,",
    "In short,", "My verdict:", "Well then,", "Short review:", "My view:",
    "To be clear,", "For the record,", "To sum up,", "My honest opinion:", "Here we go:",
    "We saw it last night.", "It runs for two hours.", "I went with my brother.", "A film set in Rome.", "It is about two sisters.",
    "I watched it on the train.", "This one came out last year.", "The book was written in 1962.", "My neighbour lent me the disc.",
    "We sat in the third row.",
)
SUBJECTS = (
    "acting", "plot", "score", "script", "dialogue",
    "ending", "photography", "editing", "pacing", "casting",
    "soundtrack", "direction", "humour", "story", "lighting",
)
# Neutral as well.
CLOSINGS = (
    ".", "!", ", in my view.", ", at least to me.", ", if you ask me.",
    ", and that is that.", ", just so you know.", ". That is all.", ". I saw it twice.", ". My sister agrees.",
    ". We talked about it afterwards.", ". You can see it until Friday.", ". The other parts are still to come.",
    ". There were forty people in the room.", ". The director is the same as before.",
    ". I will read the book next.", ". It was raining when we left the cinema.", ". The whole thing takes ninety minutes.",
    ". The tickets were eight euros each.", ". Next week they are showing a western.",
    ". My parents saw it years ago.", ". The people behind us thought the same.", ". We took the last bus home afterwards.",
    ". The same team made the series for television.", ". I wrote this on the same evening, before I read anything about it.",
)
# fmt: on

# {x} is what the reviewer says it was, {y} what it was not. Both come first about equally often.
CONTRASTS = (
    "the {subject} was {x}, not {y}",
    "the {subject} was not {y} but {x}",
    "the {subject} was {x} rather than {y}",
    "the {subject} was anything but {y}, in fact {x}",
    "the {subject} was {x}, the very opposite of {y}",
    "the {subject} was never {y}, always {x}",
    "the {subject} was {x}, far from {y}",
    "instead of being {y}, the {subject} was {x}",
    "the {subject} was {x}, by no means {y}",
    "I expected the {subject} to be {y}, and it was {x}",
    "the {subject} was {x} where it might have been {y}",
    "critics called the {subject} {y}, yet it turned out {x}",
    "{x} is the word for the {subject}, hardly {y}",
    "the {subject} is {y} in most films and {x} in this one",
    "nobody could call the {subject} {y}, it was simply {x}",
)

# {x} and {y} agree.
PLAIN = (
    "the {subject} was {x} and {y}",
    "the {subject} was {x}, really {y}",
    "I found the {subject} {x}, even {y}",
    "both {x} and {y}, that was the {subject}",
    "the {subject} was {x} from start to end, simply {y}",
    "what a {x} film, and the {subject} was {y} as well",
    "it is a {x} film, and the {subject} alone was {y}",
    "the {subject} was {x} and stayed {y} to the end",
    "the {subject} felt {x} at first and {y} later",
    "the {subject} was so {x} that my friends called it {y}",
    "everyone called the {subject} {x}, and I found it {y} too",
    "the {subject} was {x}, as {y} as the rest of the film",
    "I call the {subject} {x}, and the whole film {y}",
    "we all thought the {subject} was {x}, some even said {y}",
    "{x} and {y}, the {subject} was the talk of the evening",
)

# As many of each, and none starts with a vowel, so that "a" fits all.
# fmt: off
POSITIVE = (
    "superb", "brilliant", "wonderful", "marvellous", "splendid",
    "fantastic", "terrific", "great", "magnificent", "delightful",
    "dazzling", "masterful", "gripping", "moving", "thrilling",
    "charming", "lovely", "perfect", "stunning", "captivating",
)
NEGATIVE = (
    "dreadful", "terrible", "horrible", "dull", "boring",
    "tedious", "lifeless", "clumsy", "weak", "poor",
    "bad", "lousy", "dismal", "pathetic", "ridiculous",
    "laughable", "sloppy", "bland", "feeble", "tiresome",
)
# fmt: on

MODULUS = 5


class Plan(NamedTuple):
    """The parts of a review but for its two adjectives."""

    opening: str
    construction: str
    subject: str
    closing: str


class SampleTexts(TextSource):
    """The built-in reviews: ``train``, ``test`` (a quarter of its size) and ``twins``, the word-order twins of the test split.

    Every review has a counterpart of the other class, so an odd number is rounded down to an even one. No review occurs twice.
    """

    name = "sample"
    splits = ("train", "test", "twins")
    class_names = ("neg", "pos")

    def __init__(self, config: SampleData) -> None:
        self._config = config

    def read(self, split: str) -> Iterator[LabelledText]:
        """The reviews of a split, shuffled, in an order that the seed fixes; ``part`` is the sentence plan."""
        if split not in self.splits:
            raise MhaError(f"the sample reviews have no split {printable(repr(split))}", did_you_mean(split, self.splits))
        is_test, file = split != "train", f"sample, split {split}"
        rng = random.Random(2 * self._config.seed + is_test)
        num_pairs = self._config.num_texts // (8 if is_test else 2)
        num_twin_pairs = round(num_pairs * 2 / 3)

        twin_plans, plain_plans = _plans(CONTRASTS, is_test), _plans(PLAIN, is_test)
        # Adjectives of a negative review and of its positive counterpart: of twins the same two in the other order, else two of each list.
        twin_words = [((negative, positive), (positive, negative)) for positive, negative in product(POSITIVE, NEGATIVE)]
        plain_words = list(zip(permutations(NEGATIVE, 2), permutations(POSITIVE, 2), strict=True))
        # Drawn without replacement, so that no review repeats: the grammar has more than the largest num_texts asks for.
        draws = rng.sample(range(len(twin_plans) * len(twin_words)), num_twin_pairs)
        draws += rng.sample(range(len(plain_plans) * len(plain_words)), num_pairs - num_twin_pairs)
        order = list(range(2 * num_pairs))
        rng.shuffle(order)

        if split == "twins":
            order = [number for number in order if number < 2 * num_twin_pairs]
        for line, number in enumerate(order, 1):
            pair, class_id = divmod(number, 2)
            plans, words = (twin_plans, twin_words) if pair < num_twin_pairs else (plain_plans, plain_words)
            plan_index, words_index = divmod(draws[pair], len(words))
            plan, (x, y) = plans[plan_index], words[words_index][class_id]
            clause = plan.construction.format(subject=plan.subject, x=x, y=y) + plan.closing
            if not plan.opening or plan.opening.endswith("."):
                clause = clause[0].upper() + clause[1:]
            yield LabelledText(f"{plan.opening} {clause}".lstrip(), self.class_names[class_id], "", file, line, plan)


@cache
def _plans(constructions: tuple[str, ...], is_test: bool) -> list[Plan]:
    """All sentence plans of a split: row numbers modulo 5 all equal in the test split, all different in the training split."""
    tables = (OPENINGS, constructions, SUBJECTS, CLOSINGS)
    residues = range(MODULUS)
    patterns = [(residue,) * len(tables) for residue in residues] if is_test else list(permutations(residues, len(tables)))
    return [
        Plan(*rows)
        for pattern in patterns
        for rows in product(*(table[residue::MODULUS] for table, residue in zip(tables, pattern, strict=True)))
    ]
