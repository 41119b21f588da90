"""`mha serve` as a process: where it listens, what signals do to it, and how much memory it takes."""

import contextlib
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, TIMEOUT, environment, fork
from tests.cli.forks import Forked

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
from tests.serve.services import ask, connected, received, until

pytestmark = pytest.mark.extras

HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
MEGABYTES = 100


@contextmanager
def served(cwd: Path, *args: str | Path) -> Iterator[tuple[Forked, int]]:
    """The command, once it listens, and its port."""
    with fork(["serve", "--port", "0", *args], cwd, text=True) as process:
        line = process.stderr.readline()
        try:
            assert line.startswith("http://127.0.0.1:"), line + process.stderr.read()
            yield process, int(line.split()[0].rpartition(":")[2])
        finally:
            process.kill()


@pytest.mark.parametrize(("number", "code", "said"), [(signal.SIGTERM, 0, ""), (signal.SIGINT, 130, "error: interrupted\n")])
def test_a_signal_finishes_what_has_been_asked(number: int, code: int, said: str, small: Path, tmp_path: Path) -> None:
    body = b'{"text": "the film"}'
    with served(tmp_path, "-c", small) as (process, port):
        client = connected(port, HEAD % len(body) + body[:9])
        assert ask(port, "/healthz")[0] == 200
        process.send_signal(number)
        until(lambda: refused(port))
        assert process.poll() is None
        client.sendall(body[9:])
        head, _, content = received(client).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert json.loads(content)["tokens"] == 2
        out, err = process.communicate(timeout=TIMEOUT)
        assert (process.returncode, out, err) == (code, "", said)


def refused(port: int) -> bool:
    """Whether nobody listens any more."""
    try:
        connected(port).close()
    except ConnectionRefusedError:
        return True
    return False


def most_memory(process: Forked) -> int:
    """The most megabytes that a process has held."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) // 1024


def test_a_body_without_end_takes_no_memory(small: Path, tmp_path: Path) -> None:
    with served(tmp_path, "-c", small) as (process, port):
        ask(port, "/predict", {"text": "the film"})
        before = most_memory(process)
        assert ask(port, "/predict", bytes(MEGABYTES * 1_000_000))[0] == 413
        chunk = b"%x\r\n" % 1_000_000 + bytes(1_000_000) + b"\r\n"
        chunked = HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked")
        with connected(port, chunked, *[chunk] * MEGABYTES, b"0\r\n\r\n") as client:
            assert client.recv(100).startswith(b"HTTP/1.1 413 ")
        assert most_memory(process) < before + 20
        assert ask(port, "/healthz")[0] == 200


def test_slow_clients_do_not_take_all_descriptors(small: Path, tmp_path: Path) -> None:
    limited = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", *COMMAND, "serve", "--port", "0", "-c", str(small)]
    with (
        subprocess.Popen(limited, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True) as process,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(process.kill)
        assert process.stderr is not None
        port = int(process.stderr.readline().split()[0].rpartition(":")[2])
        for _ in range(100):
            stack.enter_context(connected(port))
        for _ in range(3):
            assert ask(port, "/healthz")[0] == 200
        process.terminate()
        assert re.fullmatch(r"error: \d+ connections are open, as many as `ulimit -n` allows; .*\n", process.stderr.read())


def test_it_says_which_model_answers_and_warns_where_all_can_reach_it(tmp_path: Path) -> None:
    with fork(["serve", "--port", "0", "--host", "0.0.0.0"], tmp_path, text=True) as process:
        lines = [process.stderr.readline() for _ in range(3)]
        process.kill()
    assert lines[0].startswith("using ")
    assert lines[1].startswith("http://0.0.0.0:")
    assert lines[1].endswith("/models/imdb.keras; Ctrl-C ends it\n")
    assert lines[2] == "warning: no authentication; anyone who can reach this address can use it\n"
