"""`mha label`: the real command, on a terminal."""

import csv
import os
import pty
import re
import select
import shlex
import signal
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.cli.command import TIMEOUT, Mha, fork, run_here
from tests.tables import write_table

CLASSES = "bad: a bad film\ngood:\n  - a good film\n  - a fine one\n"
TEXTS = [(number, f"{('awful', 'lovely')[number % 2]} film of {('rain', 'snow', 'wind')[number % 3]} {number}") for number in range(60)]
LEFT, RIGHT, BACKSPACE = "\x1b[D", "\x1b[C", "\x7f"


@pytest.fixture(autouse=True)
def _files(cwd: Path) -> None:
    write_table(cwd / "texts.csv", TEXTS, "id,review")
    (cwd / "classes.yaml").write_text(CLASSES)


class Terminal:
    """A terminal on which the command runs."""

    def __init__(self, cwd: Path, *arguments: str) -> None:
        self.ours, theirs = pty.openpty()
        self.before = termios.tcgetattr(theirs)
        self.process = fork(["label", *arguments, "--terminal"], cwd, (theirs, theirs, PIPE))
        self._theirs, self.screen, self._received = theirs, "", b""

    def until(self, pattern: str) -> str:
        """What is shown, once a pattern is in it; a screen may come in several pieces."""
        end = time.monotonic() + TIMEOUT
        while not re.search(pattern, self.screen):
            assert select.select([self.ours], [], [], max(0.0, end - time.monotonic()))[0], self.screen
            self._received += os.read(self.ours, 1 << 16)
            _, clear, last = self._received.rpartition(b"\x1b[H\x1b[2J")
            self.screen = re.sub(r"\x1b\[[0-9;]*m", "", last.decode(errors="ignore")) if clear else ""
        return self.screen

    def press(self, key: str, pattern: str) -> str:
        """What is shown after a key."""
        self.screen, self._received = "", b""
        os.write(self.ours, key.encode())
        return self.until(pattern)

    def suggested(self) -> str:
        """The label that is suggested for a text, once the model has learnt, which no answer waits for; random texts have none."""
        end = time.monotonic() + TIMEOUT
        while not (found := re.search("suggested: (.*?) \\d+%", self.screen)):
            assert time.monotonic() < end, self.screen
            if "so there is no suggestion" in self.screen:
                self.press(" ", "\\? shows the keys")
            else:
                self.press(LEFT, "●[\\s\\S]*shows the keys")
                self.press(RIGHT, "\\? shows the keys")
        return found[1]

    def end(self, key: str, number: int = 0) -> tuple[int, str]:
        """The exit status and stderr after a last key and a signal; the terminal has to be as before."""
        os.write(self.ours, key.encode())
        self.process.send_signal(number)
        while self.process.poll() is None:
            if select.select([self.ours], [], [], 0.05)[0]:
                os.read(self.ours, 1 << 16)
        assert termios.tcgetattr(self._theirs) == self.before
        return self.process.wait(), self.process.stderr.read().decode()


@contextmanager
def terminal(cwd: Path, *arguments: str) -> Iterator[Terminal]:
    labelling = Terminal(cwd, "texts.csv", "--output", "labels.csv", *arguments)
    try:
        yield labelling
    finally:
        labelling.process.kill()
        os.close(labelling.ours)


def rows(cwd: Path) -> list[dict[str, str]]:
    with (cwd / "labels.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def truth(text: str) -> str:
    return str(1 + ("lovely" in text))


@pytest.mark.usefixtures("trained_in_numpy")
def test_a_labelling_and_the_training_that_it_ends_with(cwd: Path) -> None:
    with terminal(cwd, "--classes", "classes.yaml") as shown:
        first = shown.until("keys")
        assert re.search(r"\n    1   bad  a bad film *\r\n    2   good  a good film; a fine one", first)
        assert re.search(r"id: \d+", first)
        shown.press("1", "1 of 60 texts labelled")
        assert (len(rows(cwd)), rows(cwd)[0]["label"]) == (1, "bad")
        shown.press(BACKSPACE, "0 of 60 texts")
        screen = shown.until("keys")
        marked = 0
        for number in range(1, 31):
            marked += "drawn at random: counts for the accuracy, so there is no suggestion" in screen
            screen = shown.press(truth(screen), f"{number} of 60 texts[\\s\\S]*keys")
        assert sum(row["drawn"] == "random" for row in rows(cwd)) == marked > 6
        assert "● " in shown.press(LEFT, "●[\\s\\S]*keys")
        shown.press("\r", "30 of 60 texts[\\s\\S]*keys")  # keeps it, and goes forth
        shown.press(" ", "30 of 60 texts[\\s\\S]*keys")
        suggested = shown.suggested()
        shown.press("a", "31 of 60 texts[\\s\\S]*keys")
        assert rows(cwd)[-1]["label"] == suggested
        assert "Backspace  undo" in shown.press("?", "every answer is on disk")
        code, stderr = shown.end("q")
    assert (code, len(rows(cwd)), {*rows(cwd)[0]}) == (0, 31, {"id", "review", "label", "drawn"})
    assert "31 of 60 texts labelled" in stderr
    command = shlex.split(stderr.splitlines()[-1])
    assert command == ["mha", "train", "--config", "text", "--set", "data.train=labels.csv", "--set", "data.text_column=review"]
    run_here(*command[1:], "--set", "training.epochs=1", cwd=cwd).well()


def test_the_parts_of_a_text_have_their_names(cwd: Path) -> None:
    write_table(cwd / "texts.csv", [(f"title {number}", text) for number, text in TEXTS], "subject,body")
    with terminal(cwd, "--classes", "classes.yaml", "--text-column", "subject", "--text-column", "body") as shown:
        screen = shown.until("keys")
        assert re.search(r"\n *subject *\r\n *title (\d+) *\r\n *body *\r\n *\w+ film of \w+ \1 *\r\n", screen)
        shown.press("1", "1 of 60 texts labelled")
        command = shlex.split(shown.end("q")[1].splitlines()[-1])
    assert {*rows(cwd)[0]} == {"subject", "body", "label", "drawn"}
    assert command[-1] == 'data.text_column=["subject", "body"]'


def test_ctrl_c_loses_nothing_and_another_start_goes_on(cwd: Path) -> None:
    with terminal(cwd, "--classes", "classes.yaml") as shown:
        shown.until("keys")
        shown.press("2", "1 of 60 texts")
        assert shown.end("", signal.SIGINT)[0] == 130
    with terminal(cwd) as shown:  # whose classes are those of labels: one
        code, stderr = shown.end("")
    assert (code, stderr) == (
        2,
        "error: a labelling needs two classes: only good found; write a line `name: words` for each class into a "
        "YAML file, and name it with --classes\n",
    )
    with terminal(cwd, "--classes", "classes.yaml") as shown:
        shown.until("1 of 60 texts")
        with terminal(cwd, "--classes", "classes.yaml") as second:
            refusal = "error: labels.csv: another process writes there; end it first, or choose another name\n"
            assert second.end("") == (2, refusal)
        assert shown.end("\x04")[0] == 0


def test_labels_that_the_classes_lack_are_named(cwd: Path) -> None:
    write_table(cwd / "labels.csv", [("0", TEXTS[0][1], "goood")], "id,review,label")
    with terminal(cwd, "--classes", "classes.yaml") as shown:
        shown.until("1 of 60 texts")
        assert "labels.csv: labels that --classes does not name: goood; they are classes as well" in shown.end("q")[1]


def test_many_classes_are_typed(cwd: Path) -> None:
    names = ["apple pie", "apple juice", "quince", *(f"class {letter}" for letter in "bcdefghijk")]
    (cwd / "classes.yaml").write_text("".join(f"{name}:\n" for name in names))
    with terminal(cwd, "--classes", "classes.yaml") as shown:
        shown.until("keys")
        screen = shown.press("a", "class: a")  # which would else accept the suggestion
        assert re.search("Enter   apple pie", screen)
        for letter in "pple ":
            shown.press(letter, f"class: a.*{letter}")
        assert "Enter   apple juice" in shown.press("j", "class: apple j")
        shown.press("\r", "1 of 60 texts")
        shown.press("q", "class: q")  # which would else end it
        shown.press("\x1b", "\n    1   apple pie")
        shown.press("3", "2 of 60 texts")
        assert shown.end("\x04")[0] == 0
    assert [row["label"] for row in rows(cwd)] == ["apple juice", "quince"]


def test_several_labels(cwd: Path) -> None:
    with terminal(cwd, "--classes", "classes.yaml", "--several") as shown:
        shown.until("keys")
        shown.press("1", "● bad")
        shown.press("2", "● good")
        shown.press("\r", "1 of 60 texts[\\s\\S]*keys")
        shown.press("n", "2 of 60 texts[\\s\\S]*keys")
        code, stderr = shown.end("q")
    assert (code, [row["label"] for row in rows(cwd)]) == (0, ["bad|good", ""])
    assert stderr.splitlines()[-1].endswith("--set 'data.label_separator=|'")


def test_a_review_brings_the_doubtful_labels_first(cwd: Path) -> None:
    labelled = [(text, "good" if number in (9, 21, 8) else ("bad", "good")[number % 2]) for number, text in TEXTS]
    write_table(cwd / "texts.csv", labelled, "review,verdict")
    with terminal(cwd, "--review", "--label-column", "verdict") as shown:
        screen = shown.until("keys")
        assert re.search("film of (.*) 8 *\r\n[\\s\\S]*● good[\\s\\S]*suggested: bad", screen)
        shown.press("a", "60 of 60 texts[\\s\\S]*keys")
        assert shown.end("q")[0] == 0
    assert [row["verdict"] for row in rows(cwd)] == [("bad", "good")[number % 2] for number, _ in TEXTS]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "labels.csv", "--terminal"], "--terminal: standard input and output are no terminal; run it in one, "
                                             "or leave --terminal out"),
        (["-o", "labels.jsonl"], "--output labels.jsonl: no .csv file; name one, which mha train can read"),
        (["-o", "labels.csv", "--terminal", "--no-browser"], "label takes either --terminal or --no-browser, not both; "
                                                             "leave one of them out"),
        (["-o", "labels.csv"], "a labelling needs two classes: none found; write a line `name: words` for each class into a YAML file, "
                               "and name it with --classes"),
        (["-o", "texts.csv", "--classes", "classes.yaml"], "--output texts.csv: is the file of the texts; name another file, which "
                                                           "will hold the labelled ones"),
        (["-o", "labels.csv", "--classes", "classes.yaml", "--label-column", "review"], "label column review: the file of labels has its "
                                                                                        "own column of that name; name another"),
        (["-o", "labels.csv", "--classes", "none.yaml"], "none.yaml: no such file; give a YAML file with a line "
                                                                "`name: words` for each class"),
        (["-o", "labels.csv", "--review", "--classes", "classes.yaml"], "--review: no text has a label; label some first, or name their "
                                                                        "column with --label-column"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_line(arguments: Sequence[str], message: str, mha: Mha, cwd: Path) -> None:
    if "--terminal" not in arguments and arguments[1].endswith(".csv"):
        pytest.importorskip("fastapi")
    result = mha("label", "texts.csv", *arguments)
    assert (result.code, result.stdout, result.stderr) == (2, "", f"error: {message}\n")
    assert [path.name for path in cwd.glob("*labels*")] == []


@pytest.mark.process
def test_no_answer_is_lost_when_it_is_killed(cwd: Path) -> None:
    """Each round ends it at another moment after an answer; what was shown as labelled is on disk, and the file is whole."""
    labelled = 0
    for number in range(20):
        with terminal(cwd, "--classes", "classes.yaml") as shown:
            shown.until(f"{labelled} of 60 texts[\\s\\S]*keys")
            shown.press("1", f"{labelled + 1} of 60 texts")
            os.write(shown.ours, b"2")
            time.sleep(number / 500)
            shown.process.send_signal(signal.SIGKILL)
            shown.process.wait()
        found = rows(cwd)
        assert all({*row} == {"id", "review", "label", "drawn"} and row["drawn"] in ("random", "chosen") for row in found)
        assert len(found) - labelled in (1, 2)
        labelled = len(found)
    assert labelled < 60
