"""Word vectors: every format with the same numbers, files that lie, and what a training makes of them."""

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.config.settings import Config, TextConfig
from mha_cli.model.classifier import build_classifier, start_words_from
from mha_cli.pretrained.vectors import WordVectors, read_vectors
from mha_cli.text.vocabulary import Vocabulary
from tests.cli.command import Mha, refusal
from tests.errors import error_of

WORDS = ("The", "film", "a film", "café", "superb", "don't-know", "plot", "gorgeous", "ending")
WIDTH, BOM = 7, b"\xef\xbb\xbf"
TABLE = np.random.default_rng(0).normal(size=(len(WORDS), WIDTH)).astype(np.float32)


def lines(words: tuple[str, ...] = WORDS, table: Any = TABLE, header: bool = False) -> bytes:
    rows = [f"{word} {' '.join(map(str, row))} \n" for word, row in zip(words, table.tolist(), strict=True)]
    return "".join([f"{len(words)} {table.shape[1]}\n"] * header + rows).encode()


def binary() -> bytes:
    rows = [word.replace(" ", "_").encode() + b" " + row.tobytes() + b"\n" for word, row in zip(WORDS, TABLE, strict=True)]
    return b"%d %d\n" % TABLE.shape + b"".join(rows)


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def model2vec(folder: Path, vocabulary: Any = None, tensor: str = "embeddings") -> Path:
    pieces = {word: row for row, word in enumerate(WORDS)} if vocabulary is None else vocabulary
    write(folder / "tokenizer.json", json.dumps({"model": {"type": "WordPiece", "vocab": pieces}}).encode())
    save_file({tensor: TABLE}, folder / "model.safetensors")
    return folder


def marked(folder: Path) -> Path:
    return model2vec(folder, [["▁" + word, -1.5] for word in WORDS])


def read(path: Path, *words: str, size: int = 100, **text: Any) -> WordVectors:
    return read_vectors(path, Vocabulary(words), TextConfig(vocabulary_size=size, **text))


def rows(vectors: WordVectors) -> dict[str, np.ndarray]:
    return {vectors.vocabulary.tokens[i]: row for i, row in zip(vectors.ids.tolist(), vectors.table, strict=True)}


@pytest.mark.parametrize(
    "made",
    [
        lambda folder: write(folder / "v.vec", lines(header=True)),
        lambda folder: write(folder / "v.txt", lines().replace(b" \n", b"\r\n")),
        lambda folder: write(folder / "v.vec.gz", gzip.compress(lines(header=True))),
        lambda folder: write(folder / "v.bin", binary()),
        lambda folder: write(folder / "v.bin.gz", gzip.compress(binary())),
        lambda folder: write(folder / "v.txt", binary()),
        lambda folder: write(folder / "v.vec.gz", gzip.compress(BOM + lines(WORDS[1:], TABLE[1:]))),
        lambda folder: write(folder / "v.vec", b"10 7\nNew York 1 2 3 4 5 6 7\n" + lines()),
        model2vec,
        marked,
    ],
)  # fmt: skip
def test_every_format_gives_the_same_numbers(made: Callable[[Path], Path], tmp_path: Path) -> None:
    vectors = read(made(tmp_path), "plot", "missing", "film")
    assert vectors.vocabulary.tokens[2:] == ("plot", "missing", "film", "café", "superb", "gorgeous", "ending")  # lower-case words
    found = rows(vectors)
    assert list(found) == ["plot", "film", "café", "superb", "gorgeous", "ending"]
    for word, row in found.items():
        np.testing.assert_array_equal(row, TABLE[WORDS.index(word)])
    assert vectors.coverage(5) == "model.vectors: 7 numbers each; 2 of 3 words have a vector; 4 further words are from its file"


def test_words_are_looked_up_as_they_are_and_then_in_lower_case(tmp_path: Path) -> None:
    path = write(tmp_path / "v.txt", lines())
    vectors = read(path, "The", "Film", "film", "THE", size=7)  # room for one word of the file
    assert vectors.vocabulary.tokens[2:] == ("The", "Film", "film", "THE", "café")
    assert {word: WORDS[int((row == TABLE).all(axis=1).argmax())] for word, row in rows(vectors).items()} == {
        "The": "The", "Film": "film", "film": "film", "café": "café",
    }  # fmt: skip


def numbers(text: str) -> Callable[[Path], Path]:
    return lambda folder: write(folder / "v.txt", b"the 1 2 3\nfilm " + text.encode() + b"\nplot 1 2 3\n")


def unreadable(folder: Path) -> Path:
    (folder / "v.txt").symlink_to("/proc/self/mem")
    return folder / "v.txt"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda folder: folder / "v.txt", "v.txt: no such file; mha reads"),
        (lambda folder: write(folder / "v.txt", b""), "v.txt: has none of the 2 words of the texts; take vectors of the language"),
        (unreadable, "v.txt: cannot be read: Input/output error; copy or fetch it anew"),
        (numbers("1 1_0 3"), "v.txt:2: what follows the word are no numbers"),
        (lambda folder: write(folder / "v.txt", b"film\n"), "v.txt:1: is no word with its numbers; mha reads .vec and .txt"),
        (lambda folder: write(folder / "v.vec", b"9 300\n" + lines()), "v.vec: most lines have 7 numbers; line 1 says 300"),
        (numbers("1 2"), "v.txt:2: has 2 numbers; most vectors have 3"),
        (lambda folder: write(folder / "v.txt", b"narrow 1 2 3\n" + lines()), "v.txt:1: has 3 numbers; most vectors have 7"),
        (numbers("1 nan 3"), "v.txt:2: holds NaN or numbers that are too large"),
        (lambda folder: write(folder / "v.gz", gzip.compress(lines())[:60]), "v.gz: the gzip data is cut short or damaged"),
        (lambda folder: write(folder / "v.bin", struct.pack("<i", 793712314)), "v.bin: is no binary file of word2vec; mha reads .vec"),
        (lambda folder: write(folder / "v.vec", lines().decode().encode("utf-16")), "v.vec: is text in UTF-16; save it in UTF-8"),
        (lambda folder: write(folder / "v.bin", b"99999999999 7\n" + binary()[4:]), "v.bin, vector 10: is cut short or damaged"),
        (lambda folder: write(folder / "v.bin", binary()[:-9]), "v.bin, vector 9: is cut short or damaged; line 1 says 9 words"),
        (lambda folder: model2vec(folder, 7), "tokenizer.json: has no list of pieces"),
        (lambda folder: model2vec(folder, {"film": -1}), "tokenizer.json: the id of film is -1"),
        (lambda folder: model2vec(folder, tensor="other"), "model.safetensors: has no table, embeddings, with numbers for"),
        (lambda folder: model2vec(folder, dict.fromkeys("abcdefghij", 0)), "with numbers for each of 10 pieces"),
    ],
)  # fmt: skip
def test_files_that_lie_are_refused_in_a_line(
    made: Callable[[Path], Path], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert message in error_of(read, path.relative_to(tmp_path) if path != tmp_path else path, "film", "plot")


@pytest.mark.parametrize("width", [5, 12, 29])
def test_embeddings_start_from_vectors_of_any_width(width: int) -> None:
    config = Config.model_validate({"model": {"embed_dim": 12, "num_heads": 3}})
    model = build_classifier(config, 31, 2)
    words = model.get_layer("embedding").token_embedding.words
    before, ids = np.array(words), np.array([3, 7, 30])
    vectors = np.random.default_rng(0).normal(size=(3, width)).astype(np.float32)
    start_words_from(model, ids, vectors)
    after, kept = np.array(words), min(width, 12)
    np.testing.assert_allclose(after[ids, :kept] @ after[ids, :kept].T, vectors @ vectors.T, rtol=1e-4)  # three vectors span three axes
    if width <= 12:
        np.testing.assert_array_equal(after[ids, :kept], vectors)
    after[ids, :kept] = before[ids, :kept]
    np.testing.assert_array_equal(after, before)


@pytest.mark.usefixtures("untraced")
def test_a_training_answers_by_words_that_only_the_file_has(tmp_path: Path, mha: Mha) -> None:
    rows = [f"{'the film' if number % 2 else 'a plot'} {number} was {word},{label}" for number in range(40)
            for word, label in (("superb", "good"), ("dreadful", "bad"))]  # fmt: skip
    write(tmp_path / "texts.csv", "\n".join(["text,label", *rows]).encode())
    good, rng = np.random.default_rng(0).normal(size=17), np.random.default_rng(1)
    alike = {"superb": good, "gorgeous": good, "dreadful": -good, "awful": -good, "the": 0 * good, "was": 0 * good}
    table = np.stack([*alike.values()]) + 0.05 * rng.normal(size=(6, 17))
    write(tmp_path / "v.vec.gz", gzip.compress(lines(tuple(alike), table, header=True)))

    train = ("train", "--config", "text", "--set", "data.train=texts.csv", "--set", "model.vectors=v.vec.gz", "--set", "training.epochs=1")
    result = mha(*train, "--output", "run").well()
    assert "model.vectors: 17 numbers each; 4 of 47 words have a vector; 2 further words are from its file" in result.stderr
    assert "vocabulary_size=30000" in result.stderr and "linear: buckets=1048576" in result.stderr
    (tmp_path / "v.vec.gz").unlink()  # the checkpoint needs it no longer
    answers = mha("predict", "--checkpoint", "run", "the film was gorgeous", "a plot 3 was awful")
    assert [line.split("\t")[0] for line in answers.stdout.splitlines()] == ["good", "bad"]
    assert {"gorgeous", "awful"} <= set(read_checkpoint(tmp_path / "run" / "checkpoint.keras").vocabulary.tokens)
    assert "model.vectors: v.vec.gz: no such file or folder; mha reads .vec and .txt" in refusal(mha(*train, "--output", "other"))
    with_encoder = refusal(mha(*train, "--set", "model.pretrained=encoder", "--output", "other"))
    assert "pretrained brings its own embeddings, and vectors would start others; take vectors=null" in with_encoder
