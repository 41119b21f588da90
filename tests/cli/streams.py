"""`answer_texts` between streams of this process: pipes, and terminals where a test wants them."""

from __future__ import annotations

import io
import os
import select
import threading
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from mha_cli.cli.answering import answer_texts
from mha_cli.cli.predict import PredictRequest
from tests.cli.command import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator


class Streams(NamedTuple):
    """The other ends.

    Args:
        sent: descriptor that takes texts.
        answers: pipe that gives answers.
    """

    sent: int
    answers: IO[bytes]

    def send(self, data: bytes) -> None:
        """Send texts."""
        os.write(self.sent, data)

    def answer(self) -> bytes:
        """The next line that is answered, while the producer waits."""
        assert select.select([self.answers], [], [], TIMEOUT)[0], "no answer while the producer waits"
        return self.answers.readline()


@contextmanager
def answering(stdin: tuple[int, int] | None = None, stderr: int | None = None, **request: Any) -> Iterator[Streams]:
    """Answer texts in a thread until standard input ends, or the request is met.

    Args:
        stdin: descriptors to read from and to write to; a pipe by default.
        stderr: descriptor of a terminal; closed at the end.
        request: values of a ``PredictRequest``.
    """
    given, sent = stdin or os.pipe()
    answered, written = os.pipe()

    def run() -> None:
        with open(written, "w") as stdout, io.StringIO() if stderr is None else open(stderr, "w") as log:
            answer_texts(PredictRequest(**request), given, stdout, log)

    with open(answered, "rb", buffering=0) as answers:
        command = threading.Thread(target=run, daemon=True)
        command.start()
        try:
            yield Streams(sent, answers)
        finally:
            if stdin is None:
                with suppress(OSError):  # the test closed it
                    os.close(sent)
            command.join(TIMEOUT)
            assert not command.is_alive()
            if stdin is None:
                os.close(given)
