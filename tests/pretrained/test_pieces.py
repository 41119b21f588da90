"""Texts become the pieces that ``transformers`` cuts, between special ones, cut to length."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mha_cli.errors import JOINT
from mha_cli.text.pieces import PieceTokenizer
from tests.errors import error_of
from tests.pretrained.tiny import ENDS, FAMILIES, PADDING, SENTENCES, entries_of, tiny_folder, tiny_tokenizer

FRAGMENTS = [
    *" ".join(SENTENCES).split(),
    "[PAD]", "[CLS]", "<s>", "<pad>", "<mask>", "##s", "\u3000", "\n\t", "  ", "e\u0301", "ﷺ", "\0", "🦆", "a" * 150,
    "|||IP_ADDRESS|||", "|||EMAIL_ADDRESS|||", "<|endoftext|>", "<|im_start|>", "[MASK]", " " * 30, "IT'S 12345", "'ſ",
    "!\r\n\r\n\x85", "\n ",
]  # fmt: skip
TEXTS = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(FRAGMENTS), max_size=12).map(" ".join))
TEXT, NUM_ROWS = " ".join(SENTENCES), 1_000_000


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {family: tiny_folder(tmp_path_factory.mktemp(family), family) for family in FAMILIES}


@pytest.fixture(scope="module")
def their_ids(folders: dict[str, Path]) -> Callable[[str, str], list[int]]:
    """A function from a family and a text to the ids of ``transformers``; its class for XLM-R leaves the folder's normalizer out."""
    transformers = pytest.importorskip("transformers")
    found: dict[str, Any] = {}
    for family, folder in folders.items():
        if family == "xlm-roberta":
            found[family] = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
        else:
            found[family] = transformers.AutoTokenizer.from_pretrained(folder)
    return lambda family, text: list(found[family](*text.split(JOINT))["input_ids"])


def tokenizer_of(folder: Path, max_pieces: int = 1_000, truncation: str = "head", prompt: str = "") -> PieceTokenizer:
    return PieceTokenizer((folder / "tokenizer.json").read_bytes(), NUM_ROWS, max_pieces, truncation, "tokenizer.json", prompt)


def swapped(ids: list[int], padding_id: int) -> list[int]:
    """Id 0 is our padding, and a padding piece in a text has the last row."""
    return [{0: padding_id, padding_id: NUM_ROWS - 1}.get(piece_id, piece_id) for piece_id in ids]


@pytest.mark.extras
@pytest.mark.parametrize("family", FAMILIES)
def test_ids_equal_transformers(family: str, folders: dict[str, Path], their_ids: Callable[[str, str], list[int]]) -> None:
    tokenizer = tokenizer_of(folders[family])
    assert tokenizer.padding_id == tiny_tokenizer(family).token_to_id(PADDING[family])

    @given(TEXTS)
    @settings(max_examples=200)
    def check(text: str) -> None:
        assume(JOINT not in text)
        assert tokenizer.ids(text).tolist() == swapped(their_ids(family, text), tokenizer.padding_id)

    check()
    for parts in (("a title", "and its body"), ("a title", "")) if family != "xlm-roberta" else ():  # whose file here has no form for pairs
        assert tokenizer.ids(JOINT.join(parts)).tolist() == swapped(their_ids(family, JOINT.join(parts)), tokenizer.padding_id)


@pytest.mark.minilm
def test_ids_of_minilm_equal_transformers() -> None:
    folder = Path(os.environ["MHA_MINILM"])
    theirs = pytest.importorskip("transformers").AutoTokenizer.from_pretrained(folder)
    tokenizer = tokenizer_of(folder)

    @given(TEXTS)
    @settings(max_examples=500)
    def check(text: str) -> None:
        assume(JOINT not in text)
        assert tokenizer.ids(text).tolist() == swapped(theirs(text)["input_ids"], 0)

    check()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_part_that_truncation_keeps(family: str, folders: dict[str, Path]) -> None:
    ids, (num_before, num_after) = tokenizer_of(folders[family]).ids(TEXT).tolist(), map(len, ENDS[family])
    begin, inner, end = ids[:num_before], ids[num_before:-num_after], ids[-num_after:]
    num_ends = num_before + num_after
    assert len(inner) > 40
    for most in (3, 4, 7, 12, len(inner) + 1, len(inner) + 2, len(inner) + 9):
        room, half = most - num_ends, (most - num_ends) // 2
        expected = {"head": inner[:room], "tail": inner[-room:], "head_and_tail": [*inner[: room - half], *inner[len(inner) - half :]]}
        if room >= len(inner):
            expected = dict.fromkeys(expected, inner)
        for truncation, kept in expected.items():
            ids = tokenizer_of(folders[family], most, truncation).ids(TEXT)
            assert ids.dtype == np.int32
            assert ids.tolist() == [*begin, *kept, *end]
            assert len(tokenizer_of(folders[family], most, truncation).words_of_pieces(TEXT.split())) == len(ids)


@pytest.mark.parametrize("family", FAMILIES)
def test_pieces_are_named_and_padding_is_nobodys(family: str, folders: dict[str, Path]) -> None:
    tokenizer = tokenizer_of(folders[family])
    (begin, end), padding, pieces = ENDS[family], PADDING[family], tokenizer.pieces("the film")
    assert (pieces[: len(begin)], pieces[-len(end) :]) == (begin, end)
    assert not {*begin, *end} & set(pieces[len(begin) : -len(end)])
    assert 0 not in tokenizer.ids(f"{TEXT} [PAD] <pad> <|endoftext|> |||IP_ADDRESS|||")
    assert tokenizer.pieces(f"film{padding}").count(padding) == tokenizer.pieces("film").count(padding) + 1
    assert tokenizer.pieces("") == [*begin, *end]


@pytest.mark.parametrize("prompt", ["query: ", "Instruct: find the film\nQuery:"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_comes_first_once_and_is_kept(family: str, prompt: str, folders: dict[str, Path]) -> None:
    plain, prompted = tokenizer_of(folders[family]), tokenizer_of(folders[family], prompt=prompt)
    for text in ("the film was superb", JOINT.join(("the title", "and its body")), "film", ""):
        assert prompted.ids(text).tolist() == plain.ids(prompt + text).tolist()
    (begin, end), whole, words = ENDS[family], prompted.pieces(TEXT), TEXT.split()
    of_prompt = plain.pieces(prompt.strip())[len(begin) : -len(end)]
    start = len(begin) + len(of_prompt)
    assert whole[:start] == [*begin, *of_prompt]
    assert prompted.words_of_pieces(words)[:start] == [None] * start
    most = start + len(end) + 5
    kept = {"head": whole[start : start + 5], "tail": whole[-6:-1], "head_and_tail": [*whole[start : start + 3], *whole[-3:-1]]}
    for truncation, inner in kept.items():
        tokenizer = tokenizer_of(folders[family], most, truncation, prompt)
        assert tokenizer.pieces(TEXT) == [*begin, *of_prompt, *inner, *end]
        assert len(tokenizer.words_of_pieces(words)) == most
    line = error_of(tokenizer_of, folders[family], start + len(end), "head", prompt)
    assert line.startswith(
        f"tokenizer.json: text.prompt has {len(of_prompt)} pieces, which leave none of text.max_pieces={start + len(end)}"
    )
    assert line.endswith(" to the text; take more pieces, or a shorter prompt")


@pytest.mark.parametrize("family", FAMILIES)
def test_pieces_of_a_prompt_belong_to_no_word(family: str, folders: dict[str, Path]) -> None:
    words = ["the", "film", "wasn't", "\N{HANGUL SYLLABLE GAG}", "2001"]
    plain, prompted = (tokenizer_of(folders[family], prompt=prompt).words_of_pieces(words) for prompt in ("", "query: "))
    assert set(plain) == {None, *range(5)}
    assert [word for word, before in zip(prompted, [None, *prompted], strict=False) if word is not None and word != before] == [*range(5)]
    assert len(prompted) == len(tokenizer_of(folders[family]).ids("query: " + " ".join(words)))
    assert prompted.count(None) > plain.count(None)


@pytest.mark.parametrize(("post_processor", "before", "after"), [
    (None, [], []),
    ({"type": "Sequence", "processors": [{"type": "ByteLevel"}]}, [], []),
    ({"type": "RobertaProcessing", "cls": ["<s>", 309], "sep": ["</s>", 308]}, [309], [308]),
])  # fmt: skip
def test_special_pieces_around_a_text(post_processor: Any, before: list[int], after: list[int], folders: dict[str, Path]) -> None:
    described = entries_of(folders["qwen3"]) | {"post_processor": post_processor}
    tokenizer, plain = PieceTokenizer(json.dumps(described).encode(), 400, 9, "tail", "tokenizer.json"), tokenizer_of(folders["qwen3"])
    inner = plain.ids(TEXT).tolist()[:-1]
    assert tokenizer.ids(TEXT).tolist() == [*before, *inner[len(before) + len(after) - 9 :], *after]
    assert tokenizer.ids("").tolist() == [*before, *after]


def test_half_a_surrogate_pair_is_a_question_mark(folders: dict[str, Path]) -> None:
    tokenizer = tokenizer_of(folders["bert"])
    assert tokenizer.ids("film \ud83e").tolist() == tokenizer.ids("film ?").tolist()
