"""Text to token ids: tokenizer, vocabulary and truncation in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mha_cli.text.tokenizer import make_splitter, make_tokenizer
from mha_cli.text.vocabulary import UNKNOWN_ID, EncodedText, Vocabulary, kept_slices

if TYPE_CHECKING:
    from mha_cli.config.settings import TextConfig


class TextEncoder:
    """The way from a text to the token ids that the model reads.

    Args:
        settings: rules for splitting, and the length to keep.
        vocabulary: ids of the words.
    """

    def __init__(self, settings: TextConfig, vocabulary: Vocabulary) -> None:
        self.settings = settings
        self.vocabulary = vocabulary
        self.tokenize = make_tokenizer(settings)
        self._split = make_splitter(settings)

    def encode(self, text: str) -> EncodedText:
        """The token ids of a text, cut to ``sequence_length``."""
        tokens = self.tokenize(text)
        token_ids = self.vocabulary.ids(self._kept(tokens))
        return EncodedText(token_ids, len(tokens), token_ids.count(UNKNOWN_ID))

    def read_words(self, text: str) -> list[str]:
        """The words that the model reads, as their writer wrote them: one for every id of ``encode``."""
        return self._kept(self._split(text))

    def _kept(self, words: list[str]) -> list[str]:
        first, second = kept_slices(len(words), self.settings.sequence_length, self.settings.truncation)
        return words[first] + words[second]
