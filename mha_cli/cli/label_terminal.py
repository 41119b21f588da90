"""Of `mha label`: one text at a time on a terminal, answered by single keys."""

import os
import re
import sys
import termios
import tty
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.text import Text

from mha_cli.errors import JOINT, printable
from mha_cli.labelling.session import Session, Shown, are_typed, begins, class_keys, key_meanings

BACK, FORTH, BACKSPACE, ENTER, ESCAPE, END = ("\x1b[D", "\x1bOD"), ("\x1b[C", "\x1bOC"), ("\x7f", "\b"), ("\r", "\n"), "\x1b", "\x04"
CLEAR = "\x1b[H\x1b[2J"
MOST_CHARACTERS, MOST_FOUND = 20_000, 10  # of a text, and classes that are listed while somebody types
_KEY = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])|[\s\S]")
_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;]*|O)$")


def label_on_terminal(session: Session) -> None:
    """Show texts and take answers until somebody ends it; Ctrl-C raises KeyboardInterrupt. The terminal is then as it was."""
    labelling = _Labelling(session)
    with _single_keys() as keys:
        labelling.show()
        for key in keys:
            if not labelling.press(key):
                return
            labelling.show()


class _Labelling:
    """What the keys mean, which is what they mean on the page, and what is shown."""

    def __init__(self, session: Session) -> None:
        self._session, self._console = session, Console(highlight=False)
        self._typed, self._shows_keys = "", False
        self._keys, self._types = class_keys(session.classes), are_typed(session.classes)
        self._actions: dict[str, Callable[[], object]] = {
            **dict.fromkeys(BACK, lambda: self._take(session.step(-1))),
            **dict.fromkeys(FORTH, lambda: self._take(session.step(1))),
            **dict.fromkeys(BACKSPACE, lambda: self._take(session.undo())),
            **dict.fromkeys(ENTER, self._go_on),
            " ": lambda: self._take(session.skip(self._shown.row)),
            "a": self._accept,
            **({"n": lambda: self._answer(())} if session.several else {}),
            "?": self._toggle_help,
            **{key: partial(self._choose, name) for key, name in self._keys.items()},
        }
        self._take(session.current())

    def press(self, key: str) -> bool:
        """Do what a key means; False if it ends the labelling."""
        letter = key.casefold()
        if key == END or (letter == "q" and not self._typed and not begins(self._session.classes, "q")):
            return False
        if self._typed and key in ENTER:
            found, self._typed = self._found(), ""
            if found:
                self._choose(found[0])
        elif self._typed and (key in BACKSPACE or key == ESCAPE):
            self._typed = "" if key == ESCAPE else self._typed[:-1]
        elif self._types and key.isprintable() and (self._typed or begins(self._session.classes, letter)):
            self._typed += key
        elif action := self._actions.get(letter if len(key) == 1 else key):
            action()
        return True

    def show(self) -> None:
        """Draw the text, what there is to answer, and how far the labelling is."""
        shown = self._shown
        lines = [Text(line, "dim") for line in self._session.progress().lines]
        if shown.done:
            lines += [Text(), Text("All texts have an answer. Backspace undoes the last one, q ends.", "bold")]
        else:
            text = list[Text]()
            for name, part in zip(self._session.text_columns, shown.text[:MOST_CHARACTERS].split(JOINT), strict=False):
                text += [
                    *([Text(printable(name), "dim")] if name else []),
                    *(Text(printable(line, MOST_CHARACTERS), "bold") for line in part.splitlines()),
                ]
            columns = [f"{printable(name)}: {printable(value, 200)}" for name, value in shown.columns.items()]
            drawn = [shown.drawn] if shown.drawn else []
            lines += [Text(), *text, Text(), *(Text(line, "dim") for line in columns + drawn), Text()]
            lines += self._answers()
        lines += [Text(), *map(Text, self._help())]
        with self._console.capture() as screen:
            self._console.print(*lines, sep="\n")
        print(end=CLEAR + screen.get(), flush=True)

    def _answers(self) -> Iterator[Text]:
        """The classes with their keys, and the suggestion."""
        key_of = {name: key for key, name in self._keys.items()}
        names = self._found()[:MOST_FOUND] if self._typed else list(dict.fromkeys([*key_of, *self._chosen]))
        for place, name in enumerate(names):
            key = ("Enter" if place == 0 else "") if self._typed else key_of.get(name, "")
            words = "; ".join(self._session.words.get(name, ()))
            line = Text(f"{key:>5} {'●' if name in self._chosen else ' '} {printable(name)}", "reverse" if name in self._chosen else "")
            yield line.append(f"  {printable(words, 200)}", "dim")
        if others := [printable(name) for name in self._session.classes if name not in names]:
            yield Text(f"      {', '.join(others)}", "dim")
        if self._typed:
            yield Text(f"class: {printable(self._typed)}" + ("" if names else "  (in no name; Esc shows all)"))
        elif self._shown.suggestion is not None:
            labels = ", ".join(f"{printable(name)} {probability:.0%}" for name, probability in self._shown.suggestion)
            yield Text(f"suggested: {labels or 'none of them'}", "italic")

    def _help(self) -> list[str]:
        if not self._shows_keys:
            return ["? shows the keys"]
        end = "Ctrl-D" if begins(self._session.classes, "q") else "q"
        meanings = [*key_meanings(self._session.classes, self._session.several), (end, "end; every answer is on disk")]
        return [f"{keys}  {meaning}" for keys, meaning in meanings]

    def _take(self, shown: Shown) -> None:
        self._shown, self._chosen = shown, set(shown.labels or ())

    def _found(self) -> list[str]:
        """Classes that have the typed letters in their names; those that begin with them come first."""
        typed = self._typed.casefold()
        found = [name for name in self._session.classes if typed in name.casefold()]
        return sorted(found, key=lambda name: (name.casefold() != typed, not name.casefold().startswith(typed)))

    def _toggle_help(self) -> None:
        self._shows_keys = not self._shows_keys

    def _answer(self, labels: Sequence[str]) -> None:
        if not self._shown.done:
            self._take(self._session.answer(self._shown.row, labels))

    def _choose(self, name: str) -> None:
        if self._session.several:
            self._chosen ^= {name}
        else:
            self._answer([name])

    def _accept(self) -> None:
        suggested = [name for name, _ in self._shown.suggestion or ()]
        if self._session.several:
            self._chosen |= {*suggested}
        elif suggested:
            self._answer(suggested)

    def _go_on(self) -> None:
        if self._chosen or self._shown.labels is not None:
            self._answer([*self._chosen])
        elif self._shown.suggestion is not None:
            self._answer([name for name, _ in self._shown.suggestion])


@contextmanager
def _single_keys() -> Iterator[Iterator[str]]:
    """The keys that are pressed on standard input, as they come; the terminal is restored however the block ends."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield _keys(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _keys(descriptor: int) -> Iterator[str]:
    decode, waiting = getincrementaldecoder("utf-8")("replace").decode, ""
    while data := os.read(descriptor, 1024):
        waiting += decode(data)
        while waiting and not _UNFINISHED.fullmatch(waiting) and (match := _KEY.match(waiting)):
            waiting = waiting[match.end() :]
            yield match[0]
