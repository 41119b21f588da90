"""Texts that are added later: the later label of a text counts, and what was held out before stays held out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from mha_cli.data.labelled_text import LabelledText
from mha_cli.records.reader import StreamWarnings


def with_later(
    first: Iterable[LabelledText],
    kept: Iterable[bool],
    later: Sequence[Callable[..., Iterator[LabelledText]]],
    warnings: StreamWarnings | None,
) -> Iterator[LabelledText]:
    """Those of the first texts that are ``kept``, with their later labels; for training, with ``warnings``, also later texts, each once."""
    labels = dict[int, tuple[str | tuple[str, ...], int]]()
    for stage, read in enumerate(later, 1):
        for one in read():
            if labels.get(hash(one.text), (None,))[0] != one.label:
                labels[hash(one.text)] = one.label, stage

    def relabelled(one: LabelledText) -> LabelledText:
        label, stage = labels.get(hash(one.text), (one.label, 0))
        return one if label == one.label else one._replace(label=label, spelling="", first_label=one.label, relabelled=stage)

    known = set[int]()
    for one, is_kept in zip(first, kept, strict=False):  # ``kept`` may have no end
        known.add(hash(one.text))
        if is_kept:
            yield relabelled(one)
    for stage, read in enumerate(later, 1) if warnings is not None else ():
        for one in read(warnings):
            if hash(one.text) not in known:
                known.add(hash(one.text))
                yield relabelled(one)._replace(stage=stage)
