"""Texts that are added later: the later label and weight of a text count, and what was held out before stays held out."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from mha_cli.records.reader import StreamWarnings
from mha_cli.sources.labelled_text import LabelledText


def with_later(
    first: Iterable[LabelledText],
    kept: Iterable[bool],
    later: Sequence[Callable[..., Iterator[LabelledText]]],
    warnings: StreamWarnings | None,
) -> Iterator[LabelledText]:
    """Those of the first texts that are ``kept``, as they are later; for training, with ``warnings``, also later texts, each once.

    A text that had no weight before is a later text. One that has none any more is there with weight 0, so that the others stay on their
    side.
    """
    last = dict[int, tuple[str | tuple[str, ...], float, int]]()
    for stage, read in enumerate(later, 1):
        for one in read():
            label, _, changed = last.get(hash(one.text), (None, 0.0, 0))
            last[hash(one.text)] = one.label, one.weight, changed if label == one.label else stage

    if warnings is not None:
        warnings.num_weightless += sum(not weight for _, weight, _ in last.values())

    def as_later(one: LabelledText) -> LabelledText:
        label, weight, stage = last.get(hash(one.text), (one.label, one.weight, 0))
        one = one._replace(weight=weight)
        return one if label == one.label else one._replace(label=label, spelling="", first_label=one.label, relabelled=stage)

    known = set[int]()
    for one, is_kept in zip(first, kept, strict=False):  # ``kept`` may have no end
        if one.weight or not is_kept:
            known.add(hash(one.text))
        if one.weight and is_kept:
            yield as_later(one)
        elif is_kept and warnings is not None:
            warnings.num_weightless += hash(one.text) not in last
    for stage, read in enumerate(later, 1) if warnings is not None else ():
        for one in read(warnings):
            if one.weight and hash(one.text) not in known:
                known.add(hash(one.text))
                yield as_later(one)._replace(stage=stage)


def learnt_in_words(scored: Iterable[LabelledText], learnt: Iterable[LabelledText]) -> str:
    """How many texts with words are among those learnt from, and how many of these have another label there; empty for none."""
    labels = [(hash(one.text), one.label) for one in scored if one.text.strip()]
    there = {text: set[str | tuple[str, ...]]() for text, _ in labels}
    for one in learnt:
        if (text := hash(one.text)) in there:
            there[text].add(one.label)
    known = [label in there[text] for text, label in labels if there[text]]
    others = f", {known.count(False):,} of them with another label" * (not all(known))
    return f"texts that are also training texts: {len(known):,}{others}" if known else ""
