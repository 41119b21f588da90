"""The two pages in a browser: before they are touched, with the keyboard, on a narrow screen."""

from __future__ import annotations

import shutil
import subprocess
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.runtime.inspection import explain, view_attention
from tests.checkpoints import small_checkpoint_file
from tests.cli.command import TIMEOUT, run_here
from tests.cli.pages import HOSTILE, data_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Shown = Callable[..., "ShownPage"]

pytestmark = pytest.mark.browser

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
TEXT = "The Zyzzyva was not DREADFUL, it’s superb"
NUM_WORDS = 8
COMMANDS = ("attention", "explain")


class ShownPage(HTMLParser):
    """What a page has come to in a browser: its words in order, their attributes, and the text of every element with an id."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[dict[str, str | None]] = []
        self.texts: dict[str, str] = {}
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("role") == "option":
            self.words.append(given)
        if tag not in {"meta", "br"}:
            self._open.append(given.get("id") or tag)

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for name in set(self._open):
            self.texts[name] = self.texts.get(name, "") + data

    @property
    def shades(self) -> list[float]:
        """Of every word."""
        return [float(str(word["style"]).split("--shade:")[1].split(";")[0]) for word in self.words]

    @property
    def chosen(self) -> set[int]:
        """Positions of the words that are held."""
        return {int(str(word["data-position"])) for word in self.words if word["aria-selected"] == "true"}


@pytest.fixture
def shown(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shown:
    """A page of a text, after a script of ours."""

    def shown(command: str, text: str = TEXT, script: str = "", width: int = 1200, checkpoint: Path = small) -> ShownPage:
        result = run_here(command, text, "-c", checkpoint, "--html", "page.html", cwd=tmp_path, monkeypatch=monkeypatch)
        assert result.code == 0
        data_of(tmp_path / "page.html")
        with (tmp_path / "page.html").open("a") as file:
            file.write(f"<script>{script}</script>")
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--window-size={width},900", "--dump-dom")
        quiet = ("--disable-background-networking", "--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path}/profile")
        done = subprocess.run(
            [BROWSER, *options, *quiet, (tmp_path / "page.html").as_uri()], capture_output=True, timeout=TIMEOUT, check=True
        )
        page = ShownPage()
        page.feed(done.stdout.decode())
        return page

    return shown


def press(*keys: str, at: int) -> str:
    """A script that presses keys, the first one at a word."""
    return f"document.querySelectorAll('.word')[{at}].focus();" + "".join(
        f"document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}}));" for key in keys
    )


def test_attention_shows_what_is_looked_at_before_it_is_touched(shown: Shown, small: Path) -> None:
    page = shown("attention")
    received = [weights.mean(axis=0) for weights in view_attention(read_checkpoint(small), TEXT).weights[0]]
    assert len(page.words) == 2 * NUM_WORDS
    assert page.chosen == set()
    assert [shade > 0 for shade in page.shades] == [bool(share * NUM_WORDS > 1) for head in received for share in head]
    assert "how much each word is looked at" in page.texts["shown"]
    for head in received:
        assert f"{head.max():.4f}" in page.texts["heads"]
    assert page.texts["legend"].startswith("Weight:up to 0.1250")
    assert "entropy " in page.texts["heads"]
    assert " of at most 2.079 nats" in page.texts["heads"]


def test_an_explanation_names_the_strongest_word_before_it_is_touched(shown: Shown, small: Path) -> None:
    page, expected = shown("explain"), explain(read_checkpoint(small), TEXT)
    strongest = max(range(NUM_WORDS), key=lambda place: abs(expected.occlusion[place]))
    named = f"\u2068“{expected.words[strongest]}”\u2069, word {strongest + 1} of {NUM_WORDS}"
    assert page.texts["shown"].startswith(f"Decides most: {named}: occlusion ")
    assert "against it" in page.texts["measures"]
    without = expected.prediction.probability - np.array(expected.occlusion)
    log_odds = np.log(without / (1 - without))
    probability = expected.prediction.probability
    changes = np.abs(np.log(probability / (1 - probability)) - log_odds)
    assert page.shades[:NUM_WORDS] == pytest.approx(0.75 * np.minimum(1, changes / 3), abs=1e-3)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_keyboard_chooses_a_word_and_lets_go_of_it(command: str, shown: Shown) -> None:
    page = shown(command, script=press("ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowLeft", at=NUM_WORDS))
    assert page.chosen == {6}
    assert "\u2068“it’s”\u2069, word 7 of 8" in page.texts["shown"]
    assert [int(str(word["data-position"])) for word in page.words if word["tabindex"] == "0"] == [6, 6]
    assert shown(command, script=press("End", "Home", "Enter", at=2)).chosen == set()
    assert shown(command, script=press("Enter", "Escape", at=2)).chosen == set()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("text", "key"), [("superb not dreadful", "ArrowRight"), ("فاز الفريق بالمباراة", "ArrowLeft")], ids=["English", "Arabic"]
)
def test_words_stand_in_the_direction_of_their_script(command: str, text: str, key: str, shown: Shown) -> None:
    lefts = "document.title = [...document.querySelector('.words').children].map((word) => word.getBoundingClientRect().left);"
    page = shown(command, text, lefts + press(key, key, at=0))
    assert page.chosen == {2}
    places = [float(left) for left in page.texts["title"].split(",")]
    assert places == sorted(places, reverse=key == "ArrowLeft")


@pytest.mark.parametrize("command", COMMANDS)
def test_unknown_words_and_the_model_are_told_to_all(command: str, shown: Shown) -> None:
    page = shown(command)
    assert [place for place, word in enumerate(page.words[:NUM_WORDS]) if "unknown" in str(word["class"])] == [1]
    assert [place for place, word in enumerate(page.words[:NUM_WORDS]) if "not in the vocabulary" in str(word["aria-label"])] == [1]
    assert "* not in the model's vocabulary" in page.texts["notes"]
    assert "small.keras" in page.texts["model"]
    assert "75.00%, as its file says" in page.texts["model"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("text", ["a" * 500, HOSTILE, "superb"], ids=["long", "hostile", "one"])
def test_nothing_is_wider_than_a_telephone(command: str, text: str, shown: Shown) -> None:
    script = "document.getElementById('shown').textContent = `${document.documentElement.scrollWidth - innerWidth}`"
    assert int(shown(command, text, script, width=390).texts["shown"]) <= 0


@pytest.mark.parametrize("command", COMMANDS)
def test_what_the_names_of_many_classes_stand_behind_is_not_broken(command: str, shown: Shown, tmp_path: Path) -> None:
    checkpoint = small_checkpoint_file(tmp_path / "many.keras", tuple(f"balance_not_updated_{number:02}" for number in range(77)))
    script = """
        const whole = document.createRange();
        const lines = (name) => (whole.selectNodeContents(name), whole.getClientRects().length);
        document.getElementById("shown").textContent = Math.max(...[...document.querySelectorAll("dt")].map(lines));
    """
    page = shown(command, "superb", script, checkpoint=checkpoint)
    assert "balance_not_updated_00" in page.texts["model"]
    assert page.texts["shown"] == "1"
