"""The two pages in a browser: before they are touched, with the keyboard, on a narrow screen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.runtime.inspection import explain, view_attention
from tests.browser import open_page
from tests.checkpoints import small_checkpoint_file
from tests.cli.command import Mha
from tests.pages.pages import HOSTILE, data_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    Shown = Callable[..., AbstractContextManager[Page]]

pytestmark = pytest.mark.browser

TEXT = "The Zyzzyva was not DREADFUL, it’s superb"
NUM_WORDS = 8
both = pytest.mark.parametrize("command", ["attention", "explain"])


@pytest.fixture
def shown(browser: Browser, small: Path, mha: Mha, tmp_path: Path) -> Shown:
    """The page of a text."""

    @contextmanager
    def shown(command: str, text: str = TEXT, width: int = 1200, checkpoint: Path = small) -> Iterator[Page]:
        assert mha(command, text, "-c", checkpoint, "--html", "page.html").code == 0
        data_of(tmp_path / "page.html")
        with open_page(browser, (tmp_path / "page.html").as_uri(), width=width) as (page, told):
            yield page
            assert told == []

    return shown


def shades(page: Page) -> list[float]:
    return page.eval_on_selector_all(".word", "all => all.map(one => +one.style.getPropertyValue('--shade'))")


def press(page: Page, *keys: str, at: int) -> set[int]:
    """The positions of the words that are chosen after these keys, the first one at a word."""
    page.locator(".word").nth(at).focus()
    for key in keys:
        page.keyboard.press(key)
    return {*page.eval_on_selector_all(".word[aria-selected=true]", "all => all.map(one => +one.dataset.position)")}


def test_attention_shows_what_is_looked_at_before_it_is_touched(shown: Shown, small: Path) -> None:
    received = [weights.mean(axis=0) for weights in view_attention(read_checkpoint(small), TEXT).weights[0]]
    with shown("attention") as page:
        assert page.locator(".word").count() == 2 * NUM_WORDS
        assert page.locator(".word[aria-selected=true]").count() == 0
        assert [shade > 0 for shade in shades(page)] == [bool(share * NUM_WORDS > 1) for head in received for share in head]
        assert "how much each word is looked at" in page.locator("#shown").inner_text()
        heads = page.locator("#heads").text_content() or ""
        for words in (*(f"{head.max():.4f}" for head in received), "entropy ", " of at most 2.079 nats"):
            assert words in heads
        assert (page.locator("#legend").text_content() or "").startswith("Weight:up to 0.1250")


def test_an_explanation_names_the_strongest_word_before_it_is_touched(shown: Shown, small: Path) -> None:
    expected = explain(read_checkpoint(small), TEXT)
    strongest = max(range(NUM_WORDS), key=lambda place: abs(expected.occlusion[place]))
    probability = expected.prediction.probability
    with shown("explain") as page:
        named = f"\u2068“{expected.words[strongest]}”\u2069, word {strongest + 1} of {NUM_WORDS}"
        assert page.locator("#prediction").text_content() == f"{expected.prediction.label} {probability:.4f}"
        assert (page.locator("#shown").text_content() or "").startswith(f"Decides most: {named}: occlusion ")
        assert "against it" in (page.locator("#measures").text_content() or "")
        odds = [math.log(share / (1 - share)) for share in (probability, *(probability - fall for fall in expected.occlusion))]
        assert shades(page)[:NUM_WORDS] == pytest.approx([0.75 * min(1, abs(one - odds[0]) / 3) for one in odds[1:]], abs=1e-3)


@both
def test_the_keyboard_chooses_a_word_and_lets_go_of_it(command: str, shown: Shown) -> None:
    with shown(command) as page:
        assert press(page, "ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowLeft", at=NUM_WORDS) == {6}
        assert "\u2068“it’s”\u2069, word 7 of 8" in (page.locator("#shown").text_content() or "")
        assert page.eval_on_selector_all(".word[tabindex='0']", "all => all.map(one => one.dataset.position)") == ["6", "6"]
    for keys in (("End", "Home", "Enter"), ("Enter", "Escape")):
        with shown(command) as page:
            assert press(page, *keys, at=2) == set()


@both
@pytest.mark.parametrize(("text", "key"), [("superb not dreadful", "ArrowRight"), ("فاز الفريق بالمباراة", "ArrowLeft")])
def test_words_stand_in_the_direction_of_their_script(command: str, text: str, key: str, shown: Shown) -> None:
    with shown(command, text) as page:
        lefts = page.eval_on_selector(".words", "one => [...one.children].map(word => word.getBoundingClientRect().left)")
        assert lefts == sorted(lefts, reverse=key == "ArrowLeft")
        assert press(page, key, key, at=0) == {2}


@both
def test_unknown_words_and_the_model_are_named_for_all(command: str, shown: Shown) -> None:
    with shown(command) as page:
        for selector in (".word.unknown", ".word[aria-label*='not in the vocabulary']"):
            found = page.eval_on_selector_all(selector, "all => all.map(one => +one.dataset.position)")
            assert set(found) == {1}
        assert "* not in the model's vocabulary" in (page.locator("#notes").text_content() or "")
        model = page.locator("#model").text_content() or ""
        assert "small.keras" in model
        assert "75.00%, according to the checkpoint" in model


@both
@pytest.mark.parametrize("text", ["a" * 500, HOSTILE, "superb"], ids=["long", "hostile", "one"])
def test_nothing_is_wider_than_a_telephone(command: str, text: str, shown: Shown) -> None:
    with shown(command, text, width=390) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


@both
def test_names_of_many_classes_do_not_break_the_terms_beside_them(command: str, shown: Shown, tmp_path: Path) -> None:
    checkpoint = small_checkpoint_file(tmp_path / "many.keras", tuple(f"balance_not_updated_{number:02}" for number in range(77)))
    lines = "one => { const all = document.createRange(); all.selectNodeContents(one); return all.getClientRects().length; }"
    with shown(command, "superb", checkpoint=checkpoint) as page:
        assert "balance_not_updated_00" in (page.locator("#model").text_content() or "")
        page.get_by_text("About this model").click()
        assert {term.evaluate(lines) for term in page.locator("dt").all()} == {1}
