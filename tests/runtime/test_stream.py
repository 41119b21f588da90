from __future__ import annotations

import errno
import os
import signal
from dataclasses import replace
from multiprocessing.context import ForkProcess
from typing import TYPE_CHECKING

import pytest

from mha_cli.errors import EXIT_FAILURE, MhaError
from mha_cli.records.record import Record
from mha_cli.runtime import stream, workers
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.inputs import Arrival, read_inputs
from mha_cli.runtime.stream import answer, batches_of
from tests.checkpoints import WORDS, small_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator


def numbered(count: int) -> list[Record]:
    """Records that a classifier tells apart: each has as many tokens as its number, up to what the model reads."""
    return [Record(" ".join(WORDS[(number + place) % len(WORDS)] for place in range(number % 14)), b"") for number in range(count)]


def failing(records: list[Record]) -> Iterator[Arrival]:
    yield Arrival(records)
    raise MhaError("broken")


# Batches


def test_batches_grow_while_the_stream_is_fast() -> None:
    records = numbered(4000)
    batches = [records for records, _ in batches_of([Arrival(records[:3000]), Arrival(records[3000:])])]
    assert [len(batch) for batch in batches] == [64, 128, 256, 512, 1024, 1024, 4000 - 3008]
    assert [record for batch in batches for record in batch] == records


def test_nothing_is_held_back_during_a_pause() -> None:
    one, two, three = numbered(3)
    arrivals = [Arrival((), 7), Arrival([one]), Arrival([two]), Arrival((), 7), Arrival((), 7), Arrival([three])]
    assert list(batches_of(arrivals)) == [([], 7), ([one, two], 7), ([], 7), ([three], None)]


def test_long_texts_make_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_BATCH_CHARACTERS", 10)
    records = [Record("x" * length, b"") for length in (9, 1, 20, 3, 3, 3, 3)]
    assert [len(batch) for batch, _ in batches_of([Arrival(records)])] == [2, 1, 4]


def test_what_came_before_a_fault_comes_first() -> None:
    batches = batches_of(failing(numbered(70)))
    assert [len(next(batches)[0]), len(next(batches)[0])] == [64, 6]
    with pytest.raises(MhaError, match="broken"):
        next(batches)


# Answers


@pytest.mark.parametrize("number_of_workers", [1, 3])
def test_answers_come_in_order(number_of_workers: int) -> None:
    classifier, records = Classifier(small_checkpoint()), numbered(700)
    answered = [pair for batch in answer(classifier, [Arrival(records)], number_of_workers) for pair in batch]
    assert [record for record, _ in answered] == records
    alone = {text: classifier.predict([text])[0] for text in {record.text for record in records}}
    for record, prediction in answered:
        assert prediction.text == record.text
        assert prediction.num_tokens == alone[record.text].num_tokens
        assert prediction.probabilities == pytest.approx(alone[record.text].probabilities, abs=1e-5)


@pytest.mark.parametrize("number_of_workers", [1, 2])
def test_a_fault_comes_after_all_answers_before_it(number_of_workers: int) -> None:
    found = []
    with pytest.raises(MhaError, match="broken"):
        for batch in answer(Classifier(small_checkpoint()), failing(numbered(300)), number_of_workers):
            found += batch
    assert [record for record, _ in found] == numbered(300)


@pytest.mark.parametrize("number_of_workers", [1, 2])
def test_a_slow_producer_is_answered_at_once(number_of_workers: int) -> None:
    ours, theirs = os.pipe()
    answers = answer(Classifier(small_checkpoint()), read_inputs(["-"], standard_input=ours), number_of_workers)
    for sent in ([b"the film"], [b"", b"superb"]):
        os.write(theirs, b"".join(line + b"\n" for line in sent))
        assert [record.raw for record, _ in next(answers)] == [line + b"\n" for line in sent]  # nothing more has come
    os.close(theirs)
    assert list(answers) == []
    os.close(ours)


def test_workers_begin_with_the_first_full_batch_and_answer_a_producer_that_becomes_slow() -> None:
    before = children()
    ours, theirs = os.pipe()
    answers = answer(Classifier(small_checkpoint()), read_inputs(["-"], standard_input=ours), 2)
    for number, lines in enumerate([1, stream.FIRST_BATCH_RECORDS, 1, 2]):
        os.write(theirs, b"the film\n" * lines)
        assert len(next(answers)) == lines
        assert len(children() - before) == (2 if number else 0)
    os.close(theirs)
    assert list(answers) == []
    assert children() == before
    os.close(ours)


def test_long_texts_are_shared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_BATCH_CHARACTERS", 10)
    before = children()
    answers = answer(Classifier(small_checkpoint()), [Arrival([Record("the long film", b"")] * 3)], 2)
    assert len(next(answers)) == 1
    assert len(children() - before) == 2
    answers.close()


def test_the_usual_number_of_workers_is_that_of_the_cores_but_not_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, expected in (({0}, 1), ({0, 5}, 2), (set(range(64)), 4)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid, cores=cores: cores)
        assert stream.usual_workers() == expected


def test_little_is_read_ahead_of_slow_workers() -> None:
    taken = 0

    def endless() -> Iterator[Record]:
        nonlocal taken
        while True:
            taken += 1
            yield Record("the film", b"")

    answers = answer(Classifier(small_checkpoint()), [Arrival(endless())], 2)
    given = 0
    for _ in range(20):
        given += len(next(answers))
        assert taken - given <= (2 * workers.JOBS_AHEAD + 1) * stream.MAX_BATCH_RECORDS
    answers.close()


@pytest.mark.parametrize("number_of_workers", [1, 2])
def test_what_cannot_be_computed_comes_after_all_answers_before_it(number_of_workers: int) -> None:
    checkpoint = small_checkpoint(positions="none")
    table = checkpoint.weights["embedding/token_embeddings"].copy()
    table[2 + WORDS.index("dreadful")] = 3e38
    classifier = Classifier(replace(checkpoint, weights={**checkpoint.weights, "embedding/token_embeddings": table}))
    records = [Record("a superb film", b"")] * 1000 + [Record("dreadful dreadful", b"")] * 500
    found = []
    with pytest.raises(MhaError, match="the model's weights are so large that its numbers overflow"):
        for batch in answer(classifier, [Arrival(records)], number_of_workers):
            found += batch
    assert [record for record, _ in found] == records[: 64 + 128 + 256 + 512]


# Worker processes


def children() -> set[int]:
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as file:
        return {int(word) for word in file.read().split()}


def test_workers_end_with_their_work() -> None:
    before = children()
    answers = answer(Classifier(small_checkpoint()), [Arrival(numbered(300))], 2)
    next(answers)
    started = children() - before
    assert len(started) == 2
    answers.close()
    assert children() == before


def test_workers_hold_nothing_open_that_others_wait_for() -> None:
    with workers.Workers(Classifier(small_checkpoint()), 3) as pool:
        pool.begin(numbered(3))
        pool.wait()  # one of them is past its preparations, and they are alike
        ours = {os.readlink(f"/proc/self/fd/{connection.fileno()}") for connection in pool._idle}
        assert len(ours) == 3
        asked = f"/proc/{pool._workers[0].process.pid}/fd"
        held = {os.readlink(f"{asked}/{number}") for number in os.listdir(asked)}
        assert not held & ours
        assert [os.readlink(f"{asked}/{number}") for number in (0, 1)] == [os.devnull] * 2


def test_a_worker_that_ends_is_an_error_and_not_a_wait() -> None:
    before = children()
    answers = answer(Classifier(small_checkpoint()), [Arrival(numbered(100_000))], 2)
    next(answers)
    for child in children() - before:
        os.kill(child, signal.SIGKILL)
    with pytest.raises(MhaError) as raised:
        list(answers)
    assert str(raised.value) == "a worker process has ended; lower --workers if memory is short"
    assert raised.value.exit_code == EXIT_FAILURE


def test_a_process_that_cannot_be_started_is_an_error_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    start, before = ForkProcess.start, children()

    def refuse(process: ForkProcess) -> None:
        if children() - before:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        start(process)

    monkeypatch.setattr(ForkProcess, "start", refuse)
    with pytest.raises(MhaError) as raised:
        list(answer(Classifier(small_checkpoint()), [Arrival(numbered(300))], 2))
    assert str(raised.value) == "cannot start a process: Resource temporarily unavailable; lower --workers"
    assert raised.value.exit_code == EXIT_FAILURE
    assert children() == before
