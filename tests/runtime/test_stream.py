import errno
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import replace
from multiprocessing.context import ForkProcess

import pytest

from mha_cli.errors import EXIT_FAILURE, MhaError
from mha_cli.records.record import Record
from mha_cli.runtime import stream, workers
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.inputs import read_inputs
from mha_cli.runtime.stream import Answering, Predicted
from tests.checkpoints import WORDS, small_checkpoint
from tests.cli.command import children_of
from tests.errors import error_of


def numbered(count: int) -> list[Record]:
    """Records that a classifier tells apart: each has as many tokens as its number, up to what the model reads."""
    return [Record(" ".join(WORDS[(number + place) % len(WORDS)] for place in range(number % 14)), b"") for number in range(count)]


def failing(records: list[Record]) -> Iterator[Record]:
    yield from records
    raise MhaError("broken")


def answered(records: Iterable[Record], workers: int = 1, classifier: Classifier | None = None) -> list[list[Predicted]]:
    """All answers, batch by batch."""
    found: list[list[Predicted]] = []
    Answering(classifier or Classifier(small_checkpoint()), workers).run(records, found.append)
    return found


def test_batches_grow_while_the_stream_is_fast() -> None:
    records = numbered(2000)
    batches = answered(records)
    assert [len(batch) for batch in batches] == [64, 128, 256, 512, 512, 512, 16]
    assert [record for batch in batches for record, _ in batch] == records


def test_long_texts_make_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_BATCH_CHARACTERS", 10)
    records = [Record("x" * length, b"") for length in (9, 1, 20, 3, 3, 3, 3)]
    for number_of_workers in (1, 2):
        assert [len(batch) for batch in answered(records, number_of_workers)] == [2, 1, 4]


@pytest.mark.parametrize("number_of_workers", [1, 3])
def test_answers_come_in_order(number_of_workers: int) -> None:
    classifier, records = Classifier(small_checkpoint()), numbered(700)
    pairs = [pair for batch in answered(records, number_of_workers, classifier) for pair in batch]
    assert [record for record, _ in pairs] == records
    alone = {text: classifier.predict([text])[0] for text in {record.text for record in records}}
    for record, prediction in pairs:
        assert prediction.text == record.text
        assert prediction.num_tokens == alone[record.text].num_tokens
        assert prediction.probabilities == pytest.approx(alone[record.text].probabilities, abs=1e-5)


@pytest.mark.parametrize("number_of_workers", [1, 2])
def test_a_fault_comes_after_all_answers_before_it(number_of_workers: int) -> None:
    found: list[Predicted] = []
    with pytest.raises(MhaError, match="broken"):
        Answering(Classifier(small_checkpoint()), number_of_workers).run(failing(numbered(300)), found.extend)
    assert [record for record, _ in found] == numbered(300)


@pytest.mark.parametrize("number_of_workers", [1, 2])
def test_a_slow_producer_is_answered_at_once(number_of_workers: int) -> None:
    """A part is sent at each pause of the reader; by then all parts before it have been answered."""
    ours, theirs = os.pipe()
    before, started, found, sent = children(), list[int](), list[bytes](), list[bytes]()
    answering = Answering(Classifier(small_checkpoint()), number_of_workers)
    coming = iter([*(b"the film\n" * lines for lines in (1, stream.FIRST_BATCH_RECORDS, 1, 2)), b""])

    def on_wait(descriptor: int) -> None:
        answering.on_wait(descriptor)
        assert b"".join(found) == b"".join(sent)
        started.append(len(children() - before))
        sent.append(part := next(coming))
        os.write(theirs, part) if part else os.close(theirs)

    records = read_inputs(["-"], standard_input=ours, on_wait=on_wait)
    answering.run(records, lambda batch: found.extend(record.raw for record, _ in batch))
    os.close(ours)
    assert started == [0, 0, *[number_of_workers if number_of_workers > 1 else 0] * 3]
    assert children() == before


def test_little_is_read_ahead_of_slow_workers() -> None:
    taken = answered_so_far = 0

    def many() -> Iterator[Record]:
        nonlocal taken
        for _ in range(20 * stream.MOST_IN_A_STREAM):
            taken += 1
            assert taken - answered_so_far <= (2 * workers.BATCHES_AHEAD + 1) * stream.MOST_IN_A_STREAM
            yield Record("the film", b"")

    def count(batch: list[Predicted]) -> None:
        nonlocal answered_so_far
        answered_so_far += len(batch)

    Answering(Classifier(small_checkpoint()), 2).run(many(), count)
    assert answered_so_far == taken


@pytest.mark.parametrize("number_of_workers", [1, 2])
def test_what_cannot_be_computed_comes_after_all_answers_before_it(number_of_workers: int) -> None:
    checkpoint = small_checkpoint(positions="none")
    table = checkpoint.weights["embedding/token_embedding/words"].copy()
    table[2 + WORDS.index("dreadful")] = 3e38
    classifier = Classifier(replace(checkpoint, weights={**checkpoint.weights, "embedding/token_embedding/words": table}))
    records = [Record("a superb film", b"")] * 1000 + [Record("dreadful dreadful", b"")] * 500
    found: list[Predicted] = []
    with pytest.raises(MhaError, match="the model's weights are so large that its numbers overflow"):
        Answering(classifier, number_of_workers).run(records, found.extend)
    assert [record for record, _ in found] == records[: 64 + 128 + 256 + 512]


def children() -> set[int]:
    return {*children_of(os.getpid())}


def test_workers_end_with_their_work() -> None:
    before = children()

    def stop(_: object) -> None:
        assert len(children() - before) == 2
        raise InterruptedError

    with pytest.raises(InterruptedError):
        Answering(Classifier(small_checkpoint()), 2).run(numbered(300), stop)
    assert children() == before


def test_a_worker_that_ends_is_an_error_and_not_a_wait() -> None:
    before = children()

    def kill(_: object) -> None:
        for child in children() - before:
            os.kill(child, signal.SIGKILL)

    answering = Answering(Classifier(small_checkpoint()), 2)
    said = error_of(answering.run, numbered(100_000), kill, exit_code=EXIT_FAILURE)
    assert said == "a worker process has ended; lower --workers if memory is short"


def test_a_process_that_cannot_be_started_is_an_error_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    start, before = ForkProcess.start, children()

    def refuse(process: ForkProcess) -> None:
        if children() - before:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        start(process)

    monkeypatch.setattr(ForkProcess, "start", refuse)
    said = error_of(answered, numbered(300), 2, exit_code=EXIT_FAILURE)
    assert said == "cannot start a process: Resource temporarily unavailable; lower --workers"
    assert children() == before
