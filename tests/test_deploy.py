"""What docs/deploy.md promises: the small installation, whose environment MHA_SMALL names, answers as the whole one does."""

import contextlib
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from itertools import cycle
from pathlib import Path

import pytest

from mha_cli.checkpoint.file import write_checkpoint
from mha_cli.runs import PACKAGED
from tests.checkpoints import small_checkpoint_file
from tests.cli.command import TIMEOUT, environment, run_here
from tests.documentation import DOCS, ROOT

REVIEWS = {"A superb, moving film, and not a minute too long.": "pos", "A great cast; the script is awful.": "neg"}
MOST_MEGABYTES = 120  # memory of a service with the packaged model


def block(language: str) -> str:
    """The page's block in a language."""
    return (DOCS / "deploy.md").read_text("utf-8").partition(f"```{language}\n")[2].partition("```")[0]


def test_what_is_required_is_what_the_package_depends_on() -> None:
    required = [line for line in (ROOT / "requirements-predict.txt").read_text().splitlines() if not line.startswith("#")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(required) < set(project["dependencies"])


def test_systemd_knows_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd")
    unit = tmp_path / "mha@8001.service"
    unit.write_text(block("ini").replace("/opt/mha/bin/mha", shutil.which("true") or ""))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


# The small installation


def small() -> Path:
    """The programs of its environment."""
    return Path(os.environ["MHA_SMALL"]).absolute() / "bin"


def variables() -> dict[str, str]:
    """The environment of its processes, which know nothing of this checkout."""
    return {name: value for name, value in environment().items() if name != "PYTHONPATH"}


def run(program: str, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [small() / program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=variables(), timeout=TIMEOUT, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Labelled texts, and two checkpoints."""
    rows = [f'"{text}",{label}' for text, label in REVIEWS.items()]
    (tmp_path / "reviews.csv").write_text("\n".join(["text,label", *rows * 10]))
    small_checkpoint_file(tmp_path / "small.keras", activation="gelu")
    shutil.copy(PACKAGED, tmp_path / "film.keras")
    return tmp_path


def rounded(output: str) -> str:
    """An output with three digits of each number, and without times: NumPy may be another one."""
    return re.sub(r"\d\.\d+", lambda number: f"{float(number[0]):.3f}", re.sub(r'"seconds": .*|in [\d.]+ s, .*', "", output))


@pytest.mark.small
@pytest.mark.parametrize(
    "line",
    [
        "predict -i reviews.csv --text-column text --json",
        'explain "A great cast; the script is awful." --json',
        'attention "A great cast; the script is awful." --json',
        "evaluate film.keras --data reviews.csv --precision 0.9 --json",
        "compare film.keras small.keras --data reviews.csv --json",
        "shuffle-test film.keras --data reviews.csv --json",
        "export film.keras --format int8 --output OUT.keras --data reviews.csv --json",
        "data reviews.csv --json",
        "init reviews.csv --output OUT.yaml",
        "batch reviews.csv --output OUT",
        "train --config sample --set model.num_heads=5",
    ],
)
def test_it_answers_as_the_whole_one(line: str, folder: Path) -> None:
    theirs = run("mha", *shlex.split(line.replace("OUT", "theirs")), cwd=folder)
    ours = run_here(*shlex.split(line.replace("OUT", "ours")), cwd=folder)
    assert theirs.returncode == ours.code, theirs.stderr
    assert rounded(theirs.stdout).replace("theirs", "ours") == rounded(ours.stdout)
    written = [sorted(folder.glob(f"{name}/*.jsonl")) for name in ("theirs", "ours")]
    assert [rounded(path.read_text()) for path in written[0]] == [rounded(path.read_text()) for path in written[1]]


@pytest.mark.small
def test_it_answers_in_python(tmp_path: Path) -> None:
    program = "import sys, mha_cli as mha; print([one.label for one in mha.load().predict(sys.argv[1:])])"
    done = run("python", "-c", program, *REVIEWS, cwd=tmp_path)
    assert (done.stdout, done.stderr) == (f"{[*REVIEWS.values()]}\n", "")


@pytest.mark.small
def test_it_says_what_it_lacks(folder: Path) -> None:
    done = run("mha", "train", "--config", "sample", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    versions = json.loads(run("mha", "doctor", "film.keras", "--json", cwd=folder).stdout)["versions"]
    assert {name for name, version in versions.items() if version} == {"mha", "python", "numpy"}
    assert re.search(
        r"\nerror: this needs [\w-]+, which is not installed; pip install '.*', or .*: pip install \. in .*\n$", f"\n{done.stderr}"
    )


@pytest.mark.small
@pytest.mark.extras
def test_with_tokenizers_it_reads_a_pretrained_encoder(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    from tests.pretrained.tiny import tiny_checkpoint, tiny_folder

    write_checkpoint(tmp_path / "tiny.keras", tiny_checkpoint(tiny_folder(tmp_path / "encoder", "bert")))
    line = ["predict", "-c", "tiny.keras", "--json", *REVIEWS]
    ours = run_here(*line, cwd=tmp_path)
    assert rounded(run("mha", *line, cwd=tmp_path).stdout) == rounded(ours.stdout) != ""


# Services


@contextlib.contextmanager
def service(folder: Path, port: int = 0) -> Iterator[tuple[int, int]]:
    """A service as the page's unit starts it, that may write to no file; gives its port and its process id."""
    (line,) = re.findall("^ExecStart=/opt/mha/bin/(.*)$", block("ini"), re.MULTILINE)
    words = shlex.split(line.replace("/srv/mha", str(folder)).replace("%i", str(port)))
    with subprocess.Popen(
        [small() / words[0], *words[1:]],
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        env=variables() | {"HOME": "/nowhere"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    ) as process:
        assert process.stderr is not None
        try:
            said = process.stderr.readline()
            yield int(said.partition(" ")[0].rpartition(":")[2]), process.pid
        finally:
            process.terminate()
        assert (process.wait(TIMEOUT), process.stderr.read()) == (0, "")


class Clients:
    """Clients that ask without a pause, as through the page's proxy: if a service refuses or hangs up, they ask the other one."""

    def __init__(self, ports: list[int]) -> None:
        self.labels, self._ports, self._stopped = list[str](), ports, False

    def ask(self) -> None:
        """Ask until ``stop``, or until a request is lost."""
        ports, failed = cycle(self._ports), 0
        try:
            while not self._stopped:
                try:
                    self.labels.append(asked(next(ports)))
                    failed = 0
                except (OSError, HTTPException):
                    failed += 1
                    assert failed < len(self._ports), "a request is lost"
        finally:
            self._stopped = True

    def wait(self, number: int) -> None:
        """Wait for so many answers more."""
        number += len(self.labels)
        while len(self.labels) < number and not self._stopped:
            time.sleep(0.01)

    def stop(self) -> None:
        self._stopped = True


def asked(port: int) -> str:
    """The label of a text, on a connection of its own."""
    with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)) as connection:
        connection.request("POST", "/predict", json.dumps({"text": next(iter(REVIEWS))}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = json.load(answer)
    assert answer.status == 200, content
    return content["label"]


@pytest.mark.small
def test_a_model_is_replaced_without_losing_a_request(tmp_path: Path) -> None:
    shutil.copy(PACKAGED, tmp_path / "checkpoint.keras")
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    with ThreadPoolExecutor(4) as threads, first, second:
        (port, pid), (other, _) = first.enter_context(service(tmp_path)), second.enter_context(service(tmp_path))
        clients = Clients([port, other])
        asking = [threads.submit(clients.ask) for _ in range(4)]
        try:
            clients.wait(100)
            memory = re.search(r"VmRSS:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())
            assert memory is not None and int(memory[1]) * 1024 / 1e6 <= MOST_MEGABYTES
            os.replace(small_checkpoint_file(tmp_path / "new.keras", ("bad", "good")), tmp_path / "checkpoint.keras")
            for one, its_port in ((first, port), (second, other)):
                one.close()
                one.enter_context(service(tmp_path, its_port))
                clients.wait(20)
            replaced = len(clients.labels)
            clients.wait(20)
        finally:
            clients.stop()
        for client in asking:
            client.result()
        assert clients.labels[0] == "pos"
        assert {*clients.labels[replaced:]} <= {"bad", "good"}
        health = json.loads(re.findall(r"^HEALTHCHECK .* CMD (.*)$", block("dockerfile"), re.MULTILINE)[0])
        subprocess.run([small() / "python", *health[1:-1], health[-1].replace(":8000", f":{port}")], check=True)
