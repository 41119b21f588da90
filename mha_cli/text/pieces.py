"""Text to the pieces that a pretrained encoder was trained on, by the Hugging Face library ``tokenizers``.

``tokenizer.json`` comes from outside. Its parts are looked at before the library builds them: only those of the families that we
read, and no regular expression, which could take for ever, but the one of XLM-R.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mha_cli.errors import MhaError, printable
from mha_cli.text.vocabulary import kept_slices

MAX_TOKENIZER_BYTES = 40_000_000

PARTS = {
    "normalizer": {
        "BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Precompiled", "Replace", "Sequence", "Strip", "StripAccents",
    },
    "pre_tokenizer": {"BertPreTokenizer", "ByteLevel", "Metaspace", "Sequence", "Whitespace", "WhitespaceSplit"},
    "model": {"BPE", "Unigram", "WordPiece"},
    "post_processor": {"BertProcessing", "ByteLevel", "RobertaProcessing", "TemplateProcessing"},
}  # fmt: skip
"""Parts of a tokenizer that may be there, by their types."""

PATTERNS = (" {2,}",)
"""Regular expressions that may be there."""

PADDING_NAMES = ("[PAD]", "<pad>")


class PieceTokenizer:
    """From a text to the ids of its pieces, between the two special pieces that begin and end it; padding has the id 0.

    Args:
        description: bytes of ``tokenizer.json``.
        max_pieces: longest result, the two special pieces included.
        truncation: part of a longer text that is kept, see ``kept_slices``.
        name: file that it comes from, for messages.
    """

    def __init__(self, description: bytes, max_pieces: int, truncation: str, name: str) -> None:
        from tokenizers import Tokenizer

        _refuse_unknown_parts(description, name)
        try:
            self._tokenizer = Tokenizer.from_buffer(description)
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()
            self._ends = self._tokenizer.encode("").ids
        except BaseException as error:  # its panics are no Exception
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            raise MhaError(f"{name}: {printable(str(error), 200)}", "fetch the file anew") from None
        if len(self._ends) != 2:
            raise MhaError(
                f"{name}: a text gets {len(self._ends)} special pieces", "mha reads encoders that begin and end it with one each"
            )
        self._padding_id = next(filter(None, map(self._tokenizer.token_to_id, PADDING_NAMES)), 0)
        self._max_pieces, self._truncation = max_pieces, truncation

    @property
    def num_pieces(self) -> int:
        """Ids that there may be: one more than the largest."""
        return 1 + max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=0)

    def ids(self, text: str) -> npt.NDArray[np.int32]:
        """The ids of a text's pieces, (L,), at most ``max_pieces``."""
        return self.ids_of_texts([text])[0]

    def ids_of_texts(self, texts: list[str]) -> list[npt.NDArray[np.int32]]:
        """The same for several texts, in several threads."""
        encoded = self._tokenizer.encode_batch_fast(list(map(_writable, texts)), add_special_tokens=False)
        return [self._framed(one.ids) for one in encoded]

    def pieces(self, text: str) -> list[str]:
        """The pieces themselves, one for every id of ``ids``."""
        return [self._tokenizer.id_to_token(piece_id) for piece_id in self._swapped(self.ids(text)).tolist()]

    def words_of_pieces(self, words: Sequence[str]) -> list[int | None]:
        """For every piece of the words with spaces between, the number of its word; None for the two special pieces."""
        ends = np.cumsum([len(word) + 1 for word in words])
        encoded = self._tokenizer.encode(_writable(" ".join(words)), add_special_tokens=False)
        found = [int(np.searchsorted(ends, max(start, stop - 1), side="right")) for start, stop in encoded.offsets]
        first, second = kept_slices(len(found), self._max_pieces - 2, self._truncation)
        return [None, *found[first], *found[second], None]

    def _framed(self, ids: list[int]) -> npt.NDArray[np.int32]:
        first, second = kept_slices(len(ids), self._max_pieces - 2, self._truncation)
        begin, end = self._ends
        return self._swapped(np.array([begin, *ids[first], *ids[second], end], np.int32))

    def _swapped(self, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The ids with those of the padding and of id 0 changed over."""
        if self._padding_id:
            ids = np.where(ids == self._padding_id, 0, np.where(ids == 0, self._padding_id, ids)).astype(np.int32)
        return ids


def _writable(text: str) -> str:
    """The text with a question mark for each half of a surrogate pair, which the library does not take."""
    return text.encode("utf-8", "replace").decode()


def _refuse_unknown_parts(description: bytes, name: str) -> None:
    try:
        parts: Any = json.loads(description)
    except (ValueError, RecursionError) as error:
        raise MhaError(f"{name}: is not valid JSON: {printable(str(error))}", "fetch the file anew") from None
    if not isinstance(parts, dict):
        raise MhaError(f"{name}: holds no JSON object", "fetch the file anew")
    for kind, known in PARTS.items():
        for part in _nested(parts.get(kind)):
            if part.get("type") not in known:
                found = printable(str(part.get("type")))
                raise MhaError(f"{name}: {kind} is {found}", f"mha reads {', '.join(sorted(known))}")
            pattern = part.get("pattern")
            if isinstance(pattern, dict) and "Regex" in pattern and pattern["Regex"] not in PATTERNS:
                raise MhaError(
                    f"{name}: {kind} has the regular expression {printable(str(pattern['Regex']))}", "mha runs none of unknown cost"
                )


def _nested(part: Any) -> list[dict[str, Any]]:
    """A part and those in it, a sequence's."""
    if not isinstance(part, dict):
        return []
    inner = [
        item for key in ("normalizers", "pretokenizers", "processors") for item in part.get(key) or () if isinstance(part.get(key), list)
    ]
    return [part, *(found for item in inner for found in _nested(item))]
