"""Words to the numbers of their characters, whose n-grams are a word's subwords."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def characters_of(words: Sequence[str], num_characters: int) -> npt.NDArray[np.int32]:
    """The code points of each word between ``<`` and ``>``, (N, W); cut to W characters, or filled up with zeros.

    Args:
        words: N words.
        num_characters: length to keep, W.

    Source: Bojanowski et al. 2017, "Enriching Word Vectors with Subword Information", section 3.2: the ends tell a prefix from an infix.
    """
    whole = "".join([f"<{word}>"[:num_characters].ljust(num_characters, "\0") for word in words])
    return np.frombuffer(whole.encode("utf-32-le", "surrogatepass"), dtype="<i4").astype(np.int32).reshape(len(words), num_characters)
