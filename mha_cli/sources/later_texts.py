"""Texts that are added later: the later label and weight of a text count, and what was held out before stays held out."""

from collections.abc import Iterable, Iterator, Sequence

from mha_cli.records.reader import StreamWarnings
from mha_cli.sources.labelled_text import Label, LabelledText


def with_later(
    first: Iterable[LabelledText], kept: Iterable[bool], later: Sequence[Iterable[LabelledText]], warnings: StreamWarnings | None = None
) -> Iterator[LabelledText]:
    """The first texts that are ``kept``, with their later labels; for training, with ``warnings``, also the later texts, each once.

    Only training looks at weights: a first text of weight 0 may come as a later text, and one whose later weight is 0 stays with this
    weight, so that the validation part of the others does not change.
    """
    last = dict[int, tuple[Label, float, int]]()
    for stage, texts in enumerate(later, 1):
        for text in texts:
            label, _, changed = last.get(hash(text.text), (None, 0.0, 0))
            last[hash(text.text)] = text.label, text.weight, changed if label == text.label else stage

    def as_later(text: LabelledText) -> LabelledText:
        label, weight, stage = last.get(hash(text.text), (text.label, text.weight, 0))
        text = text._replace(weight=weight)
        return text if label == text.label else text._replace(label=label, first_label=text.label, relabelled=stage)

    known, num_weightless = set[int](), sum(not weight for _, weight, _ in last.values())
    for text, is_kept in zip(first, kept, strict=False):  # ``kept`` may have no end
        counts = bool(text.weight) or warnings is None
        if counts or not is_kept:
            known.add(hash(text.text))
        if counts and is_kept:
            yield as_later(text)
        elif is_kept:
            num_weightless += hash(text.text) not in last
    if warnings is None:
        return
    warnings.num_weightless = num_weightless
    for stage, texts in enumerate(later, 1):
        for text in texts:
            if text.weight and hash(text.text) not in known:
                known.add(hash(text.text))
                yield as_later(text)._replace(stage=stage)


def learnt_in_words(scored: Iterable[LabelledText], learnt: Iterable[tuple[int, Label]]) -> str:
    """How many texts are among those learnt from, and how many of these have another label there; empty for none.

    Args:
        learnt: hash and label of each text with words that a model learns from.
    """
    labels = [(hash(text.text), text.label) for text in scored]
    labels_learnt = {text: set[Label]() for text, _ in labels}
    for text, label in learnt:
        if text in labels_learnt:
            labels_learnt[text].add(label)
    are_same = [label in labels_learnt[text] for text, label in labels if labels_learnt[text]]
    others = f", {are_same.count(False):,} of them with another label" * (not all(are_same))
    return f"texts that are also training texts: {len(are_same):,}{others}" if are_same else ""
