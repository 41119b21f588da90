"""Where texts come from: files one after the other, and streams whose producers pause."""

import fcntl
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pytest

from mha_cli.errors import MhaError
from mha_cli.records.lines import CHUNK_BYTES
from mha_cli.records.readers import format_of
from mha_cli.records.record import Record
from mha_cli.runtime import inputs, workers
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.inputs import given_texts, read_inputs
from mha_cli.runtime.workers import Workers
from tests.checkpoints import small_checkpoint
from tests.cli.command import TIMEOUT
from tests.errors import error_of

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def write(name: str, data: bytes) -> str:
    with open(name, "wb") as file:
        file.write(data)
    return name


def test_the_extension_tells_the_format() -> None:
    names = {"a.csv": "csv", "a.CSV.GZ": "csv", "b/a.tsv": "tsv", "a.ndjson": "jsonl", "a.json.gz": "jsonl", "a.ft": "fasttext"}
    names |= {"a.parquet": "parquet", "a.txt": "lines", "a.gz": "lines", "csv": "lines", "-": "lines"}
    assert {name: format_of(name) for name in names} == names


def test_texts_that_are_there_already() -> None:
    assert list(given_texts(["one", "", "a\nb"], ["text"])) == [
        Record("one", b"one\n", ("one",)),
        Record("", b"\n", ("",)),
        Record("a\nb", b"a\nb\n", ("a\nb",)),
    ]
    only = 'plain lines have only the column "text"; give texts with columns in a file, with --input'
    assert error_of(given_texts, ["one"], ["id"]) == f"--field id: arguments: {only}"


def test_files_one_after_the_other_each_in_its_format() -> None:
    paths = [write("a.csv", b"text\none\n"), write("b.txt", b"text\n"), write("c.jsonl", b'{"text": "three"}'), write("d", b"")]
    assert [record.text for record in read_inputs(paths)] == ["one", "text", "three"]
    assert [record.text for record in read_inputs(paths[:2], "lines")] == ["text", "one", "text"]


def test_patterns_and_paths_below_the_home_folder_stand_for_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for number in (10, 2):
        write(f"part-{number}.csv", b"text;n\n%d;x\n" % number)
    write("part-0.ft", b"__label__x zero\n")
    assert [record.text for record in read_inputs(["part-*.csv", "~/part-0.*"])] == ["2", "10", "zero"]
    assert error_of(read_inputs, ["more-*.csv"]).startswith("more-*.csv: no file matches; ")


def test_faults_name_their_file() -> None:
    paths = [write("a.csv", b"text\none\n"), write("b\x1b.csv", b"text\none\n1,2\n")]
    assert error_of(lambda: list(read_inputs(paths))).startswith(r"b\x1b.csv:3: 2 fields where the header has 1; ")
    for missing in ([*paths, "nowhere.txt"], ["\x1b", "a.txt"]):  # before anything is read
        assert error_of(read_inputs, missing).endswith(": cannot be read: No such file or directory; give a file of texts")
    null = error_of(read_inputs, ["a\0b"])
    assert fnmatchcase(null, r"a\x00b: cannot be read: *embedded null *; give a file of texts")  # as Python words it


def test_plain_lines_have_no_text_column() -> None:
    paths = [write("a.txt", b"one\n"), write("b.csv", b"review\ntwo\n")]
    assert [record.text for record in read_inputs(paths, text_column="review")] == ["one", "two"]


def test_files_are_closed() -> None:
    paths = [write(f"{number}.txt", b"one\ntwo\n") for number in range(5)]
    before = len(os.listdir("/proc/self/fd"))
    assert len(list(read_inputs(paths))) == 10
    assert len(os.listdir("/proc/self/fd")) == before


class Pipe(NamedTuple):
    """Both ends, by descriptor."""

    read: int
    write: int


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    ends = Pipe(*os.pipe())
    yield ends
    for end in ends:
        with suppress(OSError):  # the test closed it
            os.close(end)


def events(pipe: Pipe, sent: Iterable[Sequence[bytes]]) -> list[str | list[bytes]]:
    """The texts of a stream, and whatever is sent just when the reader would wait; the stream ends after it."""
    found: list[str | list[bytes]] = []
    coming = iter(sent)

    def on_wait(descriptor: int) -> None:
        assert descriptor == pipe.read
        for part in (parts := list(next(coming))):
            os.write(pipe.write, part)
        found.append(parts)
        if not parts:
            os.close(pipe.write)

    for record in read_inputs(["-"], standard_input=pipe.read, on_wait=on_wait):
        found.append(record.text)
    return found


def test_a_pause_within_a_line_does_not_hold_earlier_lines_back(pipe: Pipe) -> None:
    sent = [[b"one\ntwo\nthr"], [b"ee\nfo"], [b"ur"], []]
    assert events(pipe, sent) == [sent[0], "one", "two", sent[1], "three", sent[2], [], "four"]


def test_a_field_that_plain_lines_do_not_have_is_refused_before_anything_is_waited_for(pipe: Pipe) -> None:
    with pytest.raises(MhaError, match="--field id: standard input: plain lines have only"):
        next(read_inputs(["-"], fields=["id"], standard_input=pipe.read))


def test_a_file_is_never_waited_for() -> None:
    expected = [f"{number} " + "word " * (number % 40) for number in range(3_000)]
    write("lines.txt", "".join(line + "\n" for line in expected).encode())
    assert os.path.getsize("lines.txt") > 3 * CHUNK_BYTES
    assert [record.text for record in read_inputs(["lines.txt"], on_wait=pytest.fail)] == expected


def test_a_pipe_that_nobody_waits_for_blocks_nobody(pipe: Pipe) -> None:
    os.set_blocking(pipe.read, False)
    producer = threading.Timer(0.05, lambda: (os.write(pipe.write, b"late\n"), os.close(pipe.write)))
    producer.start()
    assert [record.text for record in read_inputs(["-"], standard_input=pipe.read)] == ["late"]
    producer.join()


def test_a_pipe_with_a_high_number(pipe: Pipe) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2_000), limits[1]))
    high = fcntl.fcntl(pipe.read, fcntl.F_DUPFD, 1_500)  # select() takes numbers below 1,024
    os.write(pipe.write, b"one\n")
    os.close(pipe.write)
    assert [record.text for record in read_inputs(["-"], standard_input=high)] == ["one"]
    os.close(high)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def wait_for_a_worker(descriptor: int) -> None:
    idle = Workers(Classifier(small_checkpoint()), 0)
    while not idle.wait(descriptor):
        pass


@pytest.mark.usefixtures("sigint_obeyed")
@pytest.mark.parametrize("read", [lambda descriptor: [*read_inputs(["-"], standard_input=descriptor)], wait_for_a_worker])
def test_a_signal_that_does_not_end_the_wait_is_heard_soon(read: Callable[[int], object], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (inputs, workers):
        monkeypatch.setattr(module, "WAIT_SECONDS", 0.1)
    ours, theirs = os.pipe()
    heard = threading.Event()
    ended: list[bool] = []

    def interrupt() -> None:
        time.sleep(0.3)
        signal.raise_signal(signal.SIGINT)  # in this thread: for the other one it is as if it had come just before the wait
        ended.append(heard.wait(TIMEOUT))
        os.close(theirs)

    thread = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        read(ours)
    heard.set()
    thread.join()
    os.close(ours)
    assert ended == [True]
