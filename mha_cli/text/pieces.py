"""Text to the pieces that a pretrained encoder was trained on, by the Hugging Face library ``tokenizers``.

``tokenizer.json`` comes from outside, and the library sees only what was checked: parts of the families that we read, no regular
expression, which could take for ever, but those of XLM-R and Qwen, and nothing that takes much memory, lengthens texts or lets the
library panic.
"""

import base64
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from mha_cli.arrays import Int32s
from mha_cli.errors import JOINT, MhaError, plural, printable, reason_of
from mha_cli.system.working_memory import refuse_bytes
from mha_cli.text.vocabulary import cut

MAX_TOKENIZER_BYTES, MAX_VALUES = 40_000_000, 2_000_000  # of ``tokenizer.json``; multilingual encoders have up to a million values
MAX_PIECE, MAX_PIECES_BYTES = 500, 4_000_000  # characters of a piece, and bytes of all: Unigram's tree of them takes 250 times as many
MAX_WORD, MAX_PREFIX = 1_000, 16  # characters of a word that WordPiece cuts, in their square's time, and of a mark of inner pieces
MAX_PARTS, MAX_ADDED_CHARACTERS, MAX_REPLACEMENT_BYTES = 10, 200_000, 64

PARTS = {  # parts of a tokenizer that may be there, by their types
    "normalizer": {
        "BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Precompiled", "Replace", "Sequence", "Strip", "StripAccents",
    },
    "pre_tokenizer": {"BertPreTokenizer", "ByteLevel", "Metaspace", "Sequence", "Split", "Whitespace", "WhitespaceSplit"},
    "model": {"BPE", "Unigram", "WordPiece"},
    "post_processor": {"BertProcessing", "ByteLevel", "RobertaProcessing", "Sequence", "TemplateProcessing"},
}  # fmt: skip
LENGTHEN = {"BertNormalizer", "ByteLevel", "Lowercase", "Metaspace", "NFC", "NFD", "NFKC", "NFKD", "Precompiled"}  # may lengthen: one each
PATTERN = " {2,}"  # the only regular expression that a normalizer may have
WORDS_OF_QWEN = (  # the one of ``Split``; of a run of white space it reads each character three times at most, so its time is linear
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PIECE_BYTES, CHUNK = 1_000, 1_000  # memory for a byte of a text while it is cut, and characters that are normalized at a time
TWO_BETWEEN = "two between"  # flag of a tokenizer
PADDING_NAMES, RARE = ("[PAD]", "<pad>", "<|endoftext|>"), "\N{UGARITIC LETTER ALPA}"
ANEW, ANOTHER = "fetch the file anew", "take another encoder"

Ends = tuple[list[int], list[int]]  # ids of the special pieces before a text and after it, one or none


class PieceTokenizer:
    """From a text to the ids of its pieces, after the special piece that begins it and before the one that ends it; padding has the id 0.

    ``description`` is ``tokenizer.json``; every id is below ``num_rows``. Of a text longer than ``max_pieces``, special ones included,
    ``truncation`` says which part is kept; see ``cut``. The prompt comes before every text, and is kept.
    """

    def __init__(self, description: bytes, num_rows: int, max_pieces: int, truncation: str, name: str, prompt: str = "") -> None:
        from tokenizers import Tokenizer

        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads would not survive a fork; we have processes of our own
        self._name = name
        checked, (self._begin, self._end), self.flags = _checked(description, name)
        self._prompt = prompt
        self._num_between = 2 if self.flags.get(TWO_BETWEEN) else 1  # ends of a text that stand between the parts of one
        self._bytes = PIECE_BYTES * (2 if {"ByteLevel", "Metaspace"} <= self.flags.keys() else 1)  # both lengthen every piece
        with self._library():
            self._tokenizer = Tokenizer.from_buffer(checked)
            self._tokenizer.encode(RARE)  # which shows whether there is an unknown piece
            self._num_in_prompt = len(self._tokenizer.encode(prompt.rstrip(), add_special_tokens=False))
            ids = [*self._tokenizer.get_vocab(with_added_tokens=True).values(), *self._begin, *self._end]
        if not ids or min(ids) < 0 or max(ids) >= num_rows:
            found = f"pieces with the ids {min(ids)} to {max(ids)}" if ids else "no pieces"
            problem = f"has {found}, and the encoder has {plural(num_rows, 'piece')}"
            raise MhaError(f"{name}: {problem}", "the files belong to different encoders")
        self.padding_id: int = next(filter(None, map(self._tokenizer.token_to_id, PADDING_NAMES)), 0)  # in the file
        self._spelt_padding_id = num_rows - 1 if max(ids) < num_rows - 1 else 0  # 0 is masked, and taken without such a row
        self._limits = max_pieces - len(self._begin) - len(self._end) - self._num_in_prompt, truncation
        if self._limits[0] < 1:
            taken = plural(self._num_in_prompt, "piece")
            problem = f"text.prompt has {taken}, which leave none of text.max_pieces={max_pieces} to the text"
            raise MhaError(f"{name}: {problem}", "take more pieces, or a shorter prompt")

    def ids(self, text: str) -> Int32s:
        """The ids of a text's pieces, (L,), at most ``max_pieces``; those of the padding and of id 0 have changed places."""
        ids = np.array(self._ids_in_file(text), np.int32)
        return np.where(ids == self.padding_id, self._spelt_padding_id, np.where(ids == 0, self.padding_id, ids)).astype(np.int32)

    def pieces(self, text: str) -> list[str]:
        """The pieces themselves, one for every id of ``ids``."""
        return [self._tokenizer.id_to_token(piece_id) or "" for piece_id in self._ids_in_file(text)]

    def _ids_in_file(self, text: str) -> list[int]:
        parts = self._readable(self._prompt + text).split(JOINT)
        with self._library():
            first, *others = self._tokenizer.encode_batch_fast(parts, add_special_tokens=False)
        ids = [*first.ids, *(piece_id for part in others if part.ids for piece_id in (*self._end * self._num_between, *part.ids))]
        return [*self._begin, *self._cut(ids), *self._end]

    def _cut(self, of_pieces: list[Any]) -> list[Any]:
        """The pieces of the prompt, and those of the text that are kept."""
        return of_pieces[: self._num_in_prompt] + cut(of_pieces[self._num_in_prompt :], *self._limits)

    def words_of_pieces(self, words: Sequence[str]) -> list[int | None]:
        """For every piece of the words with spaces between, the number of its word; None for the special pieces and the prompt's."""
        ends, start_of_text = np.cumsum([len(word) + 1 for word in words]), len(self._prompt)
        text = self._readable(self._prompt + " ".join(words))
        with self._library():
            offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        words_of_tokens = [
            None if 0 < stop <= start_of_text else int(np.searchsorted(ends, max(start, stop - 1) - start_of_text, side="right"))
            for start, stop in offsets
        ]
        return [*[None] * len(self._begin), *self._cut(words_of_tokens), *[None] * len(self._end)]

    def _readable(self, text: str) -> str:
        """The text, if its pieces fit into memory; a question mark replaces half a surrogate pair, which the library does not take."""
        text, normalizer = text.encode(errors="replace").decode(), self._tokenizer.normalizer
        normalized = normalizer.normalize_str if normalizer else str
        with self._library():
            size = sum(len(normalized(text[start : start + CHUNK]).encode()) for start in range(0, len(text), CHUNK))
        refuse_bytes(self._bytes * size, f"{self._name}: a text of {plural(len(text), 'character')}", "give shorter texts")
        return text

    @contextmanager
    def _library(self) -> Iterator[None]:
        """What the library says of a tokenizer that it cannot build or use, in one line."""
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # its panics are no Exception
            reason = printable(str(error).removeprefix("Cannot instantiate Tokenizer from buffer: "), 200)
            raise MhaError(f"{self._name}: cannot be used: {reason}", ANEW) from None


def _checked(description: bytes, name: str) -> tuple[bytes, Ends, dict[str, bool]]:
    """The parts of a ``tokenizer.json`` that the library is to build, as JSON, and the ids that begin and end a text; all is checked.

    The third are the types of the parts and their settings that are true or false.
    """

    def require(holds: bool, problem: str, hint: str = ANOTHER) -> None:
        if not holds:
            raise MhaError(f"{name}: {problem}", hint)

    require(sum(map(description.count, b"[{,")) <= MAX_VALUES, f"has more than {MAX_VALUES:,} values")
    try:
        parts: Any = json.loads(description)
    except (ValueError, RecursionError) as error:
        raise MhaError(f"{name}: is not valid JSON: {reason_of(error)}", ANEW) from None
    require(isinstance(parts, dict) and isinstance(parts.get("model"), dict), "has no model", ANEW)
    flags = dict[str, bool]()
    for kind, known in PARTS.items():
        nested = _nested(parts.get(kind))
        require(len(nested) <= MAX_PARTS, f"{kind} has more than {MAX_PARTS} parts")
        types = [_text(part.get("type")) for part in nested]
        for part, type_name in zip(nested, types, strict=True):
            require(type_name in known, f"{kind} is {printable(type_name) or 'without a type'}", f"mha reads {', '.join(sorted(known))}")
            problem = _problem(part)
            require(not problem, f"{kind} {type_name} {problem}")
            require(type_name not in LENGTHEN or types.count(type_name) == 1, f"{kind} has {type_name} twice")
            flags = {type_name: True} | {key: value for key, value in part.items() if isinstance(value, bool)} | flags
    added = parts.get("added_tokens") or []
    require(isinstance(added, list) and all(isinstance(token, dict) for token in added), "added_tokens is no list of objects", ANEW)
    require(sum(len(_text(token.get("content"))) for token in added) <= MAX_ADDED_CHARACTERS, "added_tokens are too long")
    flags[TWO_BETWEEN] = any(map(_has_two_between, _nested(parts.get("post_processor"))))
    ends = _ends(parts.get("post_processor"))
    if ends is None:
        raise MhaError(f"{name}: puts more than one special piece before a text or after it, or no text between", ANOTHER)
    built = {"version": "1.0", "added_tokens": added, **{kind: parts.get(kind) for kind in PARTS}, "post_processor": None}
    try:
        return json.dumps(built, allow_nan=False).encode(), ends, flags
    except (ValueError, RecursionError) as error:
        raise MhaError(f"{name}: {reason_of(error)}", ANEW) from None


def _ends(part: Any) -> Ends | None:
    """The ids that a post-processor puts before a text and after it, one or none; None if it does something else."""
    match [each for each in _nested(part) if each.get("type") not in ("ByteLevel", "Sequence")]:
        case []:
            return ([], []) if part is None or isinstance(part, dict) else None
        case [{"type": "BertProcessing" | "RobertaProcessing", "cls": [_, int(begin)], "sep": [_, int(end)]}]:
            return [begin], [end]
        case [{"type": "TemplateProcessing", "single": list(single), "special_tokens": dict(known)}]:
            ids = [_special_id(item, known) for item in single]
            is_text = [isinstance(item, dict) and "Sequence" in item for item in single]
            if sum(is_text) == 1 and [piece_id is None for piece_id in ids] == is_text:
                before, after = ids[: is_text.index(True)], ids[is_text.index(True) + 1 :]
                return (before, after) if max(len(before), len(after)) <= 1 else None
    return None


def _special_id(item: Any, known: dict[str, Any]) -> Any:
    """The id of a special piece in a template; None for anything else."""
    match item:
        case {"SpecialToken": {"id": str(name)}}:
            match known.get(name):
                case {"ids": [int(piece_id)]}:
                    return piece_id
    return None


def _has_two_between(part: Any) -> bool:
    """Whether a post-processor puts two special pieces between a text and a second one, as RoBERTa does."""
    match part:
        case {"type": "RobertaProcessing"}:
            return True
        case {"type": "TemplateProcessing", "pair": [_, {"Sequence": _}, {"SpecialToken": _}, {"SpecialToken": _}, *_]}:
            return True
    return False


def _nested(part: Any) -> list[dict[str, Any]]:
    """A part and those in it, a sequence's; not many more than may be there."""
    nested = [part] if isinstance(part, dict) else []
    for each in nested:
        for key in ("normalizers", "pretokenizers", "processors"):
            inner = each.get(key)
            if isinstance(inner, list) and len(nested) <= MAX_PARTS:
                nested += [item for item in inner if isinstance(item, dict)]
    return nested


def _problem(part: dict[str, Any]) -> str:
    """Why a part of a known type is refused; empty if it is not."""
    match part:
        case {"type": "Replace", "pattern": {"Regex": regex}} if regex != PATTERN:
            return f"has the regular expression {printable(_text(regex))}"
        case {"type": "Split"} if part != {"type": "Split", "pattern": {"Regex": WORDS_OF_QWEN}, "behavior": "Isolated", "invert": False}:
            return "splits by another pattern, or in another way, than Qwen's"
        case {"type": "Replace", "pattern": {"Regex": str(text)} | {"String": str(text)}, "content": str(content)} if len(content) < 2:
            return "" if text else "replaces an empty text"
        case {"type": "Replace"}:
            return "puts more than one character in place of a text"
        case {"type": "Precompiled"}:
            return _problem_of_characters(part.get("precompiled_charsmap"))
        case {"type": "Unigram", "vocab": list(vocabulary)}:
            pieces = [_text(pair[0]) for pair in vocabulary if isinstance(pair, list) and pair]
            if max(map(len, pieces), default=0) > MAX_PIECE or len("".join(pieces).encode(errors="replace")) > MAX_PIECES_BYTES:
                return f"has pieces of more than {MAX_PIECE} characters, or more than {MAX_PIECES_BYTES:,} bytes of them"
        case {"type": "BPE"}:
            for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
                if part.get(key):
                    return f"has a {key}"
        case {"type": "WordPiece"}:
            longest, prefix = part.get("max_input_chars_per_word"), _text(part.get("continuing_subword_prefix"))
            if not isinstance(longest, int) or longest > MAX_WORD or len(prefix) > MAX_PREFIX:
                return f"cuts words of more than {MAX_WORD:,} characters, or has a prefix of more than {MAX_PREFIX}"
    return ""


def _problem_of_characters(charsmap: Any) -> str:
    """Why a table of characters and what stands for them is refused; empty if it is not.

    It is a tree of bytes in an array of units (Darts-clone), whose children are anywhere in 256 units, and texts that leaves point to.
    """
    try:
        table = base64.b64decode(charsmap, validate=True)
        size = int.from_bytes(table[:4], "little")
        units, texts = np.frombuffer(table[4 : 4 + size], "<u4").astype(np.int64), table[4 + size :]
        texts.decode()
        children = np.arange(len(units)) ^ (units >> 10 << (units >> 6 & 8))
        nodes = (units < 1 << 31) | (np.arange(len(units)) == 0)
        leaves = units[children[nodes & (units >> 8 & 1 == 1)]] & 0x7FFFFFFF
        begins = np.append(np.frombuffer(texts, np.uint8) & 0xC0 != 0x80, True)
        whole = size == 4 * len(units) and (children[nodes] | 255).max() < len(units) and begins[leaves].all()
    except (TypeError, ValueError, IndexError):
        whole = False
    if not whole:
        return "is damaged (precompiled_charsmap)"
    longest = max(map(len, texts.split(b"\0")))
    return f"puts {longest:,} bytes in place of a character" if longest > MAX_REPLACEMENT_BYTES else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
