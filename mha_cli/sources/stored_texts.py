"""Labelled texts that are read from their source once, and then again from a temporary file."""

import marshal
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise

from mha_cli.sources.labelled_text import LabelledText
from mha_cli.system.whole_files import TemporaryBytes

BLOCK_TEXTS = 32  # texts that are written and read together
NEEDS = "it takes a copy of the texts, so that their files are read once"


class StoredTexts:
    """Texts of a stream that can be iterated again and again."""

    def __init__(self, texts: Iterable[LabelledText]) -> None:
        self._source: Iterable[LabelledText] | None = texts
        self._bytes, self._bounds = TemporaryBytes(NEEDS), [0]  # where each block begins, and the last one ends

    def __iter__(self) -> Iterator[LabelledText]:
        """The texts: the first time from the stream, to its end; later from the file, without their ``group``."""
        source, self._source = self._source, None
        return self._from_file() if source is None else self._from_source(iter(source))

    def _from_source(self, source: Iterator[LabelledText]) -> Iterator[LabelledText]:
        while block := [*islice(source, BLOCK_TEXTS)]:
            data = marshal.dumps([tuple(text._replace(group=None)) for text in block])
            self._bytes.append(data)
            self._bounds.append(self._bounds[-1] + len(data))
            yield from block

    def _from_file(self) -> Iterator[LabelledText]:
        for start, stop in pairwise(self._bounds):
            yield from map(LabelledText._make, marshal.loads(self._bytes.read(start, stop)))
