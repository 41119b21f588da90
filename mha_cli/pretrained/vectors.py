"""Word vectors that others have trained, read as data: of a file of millions, those of the words that a model knows.

Axes: V words, D width of a vector.
"""

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from mha_cli.arrays import Floats, Int32s
from mha_cli.config.settings import TextConfig
from mha_cli.errors import MhaError, need, plural, printable, shown_path
from mha_cli.pretrained.families import unusable
from mha_cli.pretrained.folder import DTYPES, MAX_WEIGHT_BYTES, TOKENIZER, WEIGHTS, open_file, open_tensors, read_json
from mha_cli.records.lines import CHUNK_BYTES, PieceFile, unpacked
from mha_cli.text.pieces import ANEW, MAX_TOKENIZER_BYTES
from mha_cli.text.tokenizer import make_tokenizer
from mha_cli.text.vocabulary import MAX_TOKEN_LENGTH, SPECIAL_TOKENS, Vocabulary

CONTROL = re.compile(rb"[\0-\x08\x0e-\x1f]")  # bytes that no text has
FIRST_BYTES, FIRST_LINES = 4_096, 100  # these tell text from binary data, and the width of the vectors
MAX_NUMBER = 1e30  # sums of larger ones overflow
MAX_WIDTH, MAX_WORD_BYTES, MAX_LINE_BYTES = 4_096, 1_000, 1 << 18
VECTOR_FORMATS = "mha reads .vec and .txt, word2vec's .bin and model2vec's folder"
WORD_STARTS = "▁Ġ"  # marks of a piece that begins a word

Wanted = Callable[[str], bool]
WordRows = Iterator[tuple[str, Any, str]]  # wanted words, their numbers, (D,), and the location in the file


@dataclass(frozen=True)
class WordVectors:
    """The vectors of words."""

    vocabulary: Vocabulary  # words of the texts, then further words of the file
    ids: Int32s  # words that have a vector, (V,)
    table: Floats  # their vectors, (V, D)

    def coverage(self, num_ids: int) -> str:
        """How many words of the texts, whose ids are the first ``num_ids``, have a vector, in a line."""
        known, words = int((self.ids < num_ids).sum()), num_ids - len(SPECIAL_TOKENS)
        further = f"{len(self.ids) - known:,} further words are from its file"
        return f"model.vectors: {self.table.shape[1]:,} numbers each; {known:,} of {plural(words, 'word')} have a vector; {further}"


def read_vectors(path: Path, vocabulary: Vocabulary, settings: TextConfig) -> WordVectors:
    """Read the vectors of words, looked up as they are and then in lower case, and of the file's first other words.

    Args:
        path: file or folder, from anywhere.
        vocabulary: words of the texts; as many others as ``vocabulary_size`` leaves room for are added.
        settings: what a word is; the tokenizer must leave the other words whole.
    """
    words, tokenize = vocabulary.tokens[len(SPECIAL_TOKENS) :], make_tokenizer(settings)
    of_texts, num_more = {*words, *map(str.lower, words)}, settings.vocabulary_size - len(vocabulary)
    of_words, more = dict[str, Floats](), dict[str, Floats]()

    def is_wanted(word: str) -> bool:
        if word in of_texts:
            return word not in of_words
        return len(more) < num_more and word not in more and len(word) <= MAX_TOKEN_LENGTH and tokenize(word) == [word]

    for word, numbers, location in _vectors(path, is_wanted):
        try:
            vector = np.array(numbers, np.float64)
        except ValueError:
            raise MhaError(f"{location}: what follows the word are no numbers", ANEW) from None
        if not -MAX_NUMBER < vector.min() <= vector.max() < MAX_NUMBER:
            raise MhaError(f"{location}: holds NaN or numbers that are too large", ANEW)
        (of_words if word in of_texts else more)[word] = vector.astype(np.float32)
    if not of_words:
        raise unusable(path, f"has none of the {plural(len(words), 'word')} of the texts", "take vectors of the language of your texts")
    spellings = {word: word if word in of_words else word.lower() for word in words}
    vectors = {word: of_words[spelling] for word, spelling in spellings.items() if spelling in of_words} | more
    whole = Vocabulary([*words, *more])
    return WordVectors(whole, np.array(whole.ids(vectors), np.int32), np.stack([*vectors.values()]))


def _vectors(path: Path, is_wanted: Wanted) -> WordRows:
    if path.is_dir():
        yield from _of_folder(path, is_wanted)
        return
    with open_file(path, VECTOR_FORMATS) as packed:
        pieces = unpacked(iter(partial(packed.read, CHUNK_BYTES), b""), shown_path(path))
        file = BufferedReader(PieceFile(pieces), CHUNK_BYTES)
        is_binary = CONTROL.search(file.peek()[:FIRST_BYTES])  # whatever its name
        yield from (_of_binary if is_binary else _of_lines)(file, path, is_wanted)


def _of_lines(file: IO[bytes], path: Path, is_wanted: Wanted) -> WordRows:
    """Lines of a word and its numbers; a first line with the number of words and the width may come before them.

    The width is that of most of the first lines, since the word of any line may have a space, and any line may be cut short.
    """
    lines = iter(partial(file.readline, MAX_LINE_BYTES), b"")
    first = [line.removeprefix(codecs.BOM_UTF8) for line in islice(lines, FIRST_LINES)]
    header = b"".join(first[:1]).decode(errors="replace").split()
    start, told = (1, printable(header[1])) if len(header) == 2 else (0, "")
    widths = Counter(len(line.split()) - 1 for line in first[start:])
    width = max(widths, key=lambda width: (widths[width], str(width) == told, width), default=0)
    if widths and not 1 < width <= MAX_WIDTH:
        raise MhaError(f"{shown_path(path)}:{start + 1}: is no word with its numbers", VECTOR_FORMATS)
    if start and widths and told != str(width):
        raise MhaError(f"{shown_path(path)}: most lines have {width:,} numbers; line 1 says {told}", ANEW)
    for number, line in enumerate(chain(first[start:], lines), start + 1):
        location, fields = f"{shown_path(path)}:{number}", line.split(None, 1)
        word = fields[0].decode(errors="replace") if fields else ""
        if is_wanted(word):
            parts = line.rsplit(None, width)
            if len(parts) <= width:
                raise MhaError(f"{location}: has {plural(len(parts) - 1, 'number')}; most vectors have {width:,}", ANEW)
            if parts[0] == fields[0]:  # or it is a phrase that begins with the word
                yield word, [b"" if b"_" in part else part for part in parts[1:]], location  # Python takes 1_0 for a number


def _of_binary(file: IO[bytes], path: Path, is_wanted: Wanted) -> WordRows:
    """word2vec's format: the number of words and the width, then each word, a space and its numbers."""
    header = file.readline(100).split()
    if len(header) != 2 or not all(map(bytes.isdigit, header)) or not 1 < int(header[1]) <= MAX_WIDTH:
        raise unusable(path, "is no binary file of word2vec", f"{VECTOR_FORMATS}; of a model of fastText, take the .vec file")
    num_words, width = map(int, header)
    for number in range(1, num_words + 1):
        name, location = bytearray(), f"{shown_path(path)}, vector {number:,}"
        while (byte := file.read(1)) not in (b" ", b"") and len(name) < MAX_WORD_BYTES:
            name += byte
        row = file.read(4 * width)
        if byte != b" " or len(row) < 4 * width:
            raise MhaError(f"{location}: is cut short or damaged; line 1 says {num_words:,} words, {width:,} wide", ANEW)
        if is_wanted(word := name.lstrip(b"\n").decode(errors="replace")):
            yield word, np.frombuffer(row, "<f4"), location


def _of_folder(path: Path, is_wanted: Wanted) -> WordRows:
    """model2vec's folder: the vectors of the pieces that are whole words."""
    need("model.vectors", "pretrained", "safetensors")
    from safetensors import SafetensorError

    model = read_json(path / TOKENIZER, limit=MAX_TOKENIZER_BYTES).get("model")
    pieces = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(pieces, list):  # of Unigram: pairs of a piece and its score
        pieces = {str(pair[0]): row for row, pair in enumerate(pieces) if isinstance(pair, list) and pair}
    if not isinstance(pieces, dict):
        raise unusable(path / TOKENIZER, "has no list of pieces")
    with ExitStack() as stack:
        file = open_tensors(path / WEIGHTS, stack)
        try:
            tensor = file.get_slice("embeddings")
            num_rows, width = tensor.get_shape()
            whole = tensor.get_dtype() in DTYPES and len(pieces) <= num_rows <= MAX_WEIGHT_BYTES // 4 // width and 1 < width <= MAX_WIDTH
        except (SafetensorError, ValueError, ZeroDivisionError):
            whole = False
        if not whole:
            raise unusable(
                path / WEIGHTS, f"has no table, embeddings, with numbers for each of {plural(len(pieces), 'piece')}", VECTOR_FORMATS
            )
        table = file.get_tensor("embeddings")
    start = next((mark for mark in WORD_STARTS if any(piece.startswith(mark) for piece in pieces)), "")
    for piece, row in pieces.items():
        if piece.startswith(start) and is_wanted(word := piece.removeprefix(start)):
            if type(row) is not int or not 0 <= row < num_rows:
                raise unusable(path / TOKENIZER, f"the id of {printable(piece)} is {printable(repr(row))}")
            yield word, table[row], f"{shown_path(path / WEIGHTS)}, row {row:,}"
