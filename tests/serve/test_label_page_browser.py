"""A person's path through the page of a labelling, in a browser."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from mha_cli.errors import JOINT
from mha_cli.labelling.model import Assessment, Estimate
from mha_cli.labelling.session import Session
from mha_cli.labelling.store import LabelStore
from mha_cli.records.record import Record
from tests.browser import open_page
from tests.pages.pages import HOSTILE
from tests.serve.labellings import COMMAND, Labelling, labelling, session

sync_api = pytest.importorskip("playwright.sync_api")

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = [pytest.mark.browser, pytest.mark.extras, pytest.mark.filterwarnings("ignore:::sklearn")]  # of few texts

CLASSES = ("sport", "politics", "science")
ROWS = [{"text": f"text number {number}", "id": str(number)} for number in range(40)]
MANY = ("alpha", "beta", "card", "card lost", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "4 wheels")


def suggesting(session: Session, *labels: str) -> Session:
    """The session, whose model suggests the same for every text; none is drawn at random, since these have no suggestion."""
    session._to_draw = set()
    session._learner.suggestion = lambda row: tuple((label, 0.8) for label in labels)  # type: ignore[method-assign]
    return session


@contextmanager
def opened(browser: Browser, session: Session, width: int = 1200, dark: bool = False) -> Iterator[tuple[Page, Labelling]]:
    """The page of a session. In the end it has asked nobody else, complained of nothing, run no stranger's code, and fits the screen."""
    with labelling(session) as place, open_page(browser, place.url, width=width, dark=dark) as (page, told):
        sync_api.expect(page.locator("#work")).to_be_visible()
        yield page, place
        here = f"http://127.0.0.1:{place.port}/"
        assert [line for line in told if not line.startswith((here, "data:,"))] == []
        assert page.url == here  # the secret does not show
        assert not page.evaluate("'run' in window || document.images.length || document.scripts.length > 1")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    return tmp_path / "labels.csv"


def written(path: Path) -> dict[str, str]:
    """The labels in a file, by their texts, in the order of the file."""
    with path.open(encoding="utf-8", newline="") as file:
        return {row["text"]: row["label"] for row in csv.DictReader(file)}


def text(page: Page) -> str:
    """The text that is shown, once all presses have had their turn."""
    page.evaluate("turn")
    return str(page.locator("#text").text_content())


def press(page: Page, key: str) -> str:
    """Press a key; gives the text that is shown then."""
    page.keyboard.press(key)
    return text(page)


def button(page: Page, name: str) -> Locator:
    """The button of a class."""
    return page.locator("#classes").get_by_role("button", name=name)


def count(page: Page) -> str:
    return str(page.locator("#count").text_content())


def test_a_person_labels_undoes_skips_and_comes_back(browser: Browser, labels: Path) -> None:
    expected = {}
    with opened(browser, session(labels, ROWS, CLASSES, {"sport": ["games", "players"]}), width=390, dark=True) as (page, _):
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 28)"
        assert "games · players" in page.locator("#classes li").first.text_content()
        for number in range(20):
            expected[text(page)] = CLASSES[number % 3]
            press(page, str(number % 3 + 1))
        assert (written(labels), count(page)) == (expected, "20 of 40 labelled")
        last = list(expected)[-1]
        assert press(page, "Backspace") == last
        assert (last in written(labels), count(page)) == (False, "19 of 40 labelled")
        skipped = last
        assert press(page, "Space") != skipped
        expected.pop(skipped)
        before = text(page)
        page.reload()
        sync_api.expect(page.locator("#text")).to_have_text(before)
        assert press(page, "ArrowLeft") == list(expected)[-1]
        assert button(page, "sport").get_attribute("aria-pressed") == "true"
        expected[text(page)] = "politics"
        assert press(page, "2") == before
        button(page, "science").click()
        expected[before] = "science"
        assert text(page) != before
        assert written(labels) == expected
        assert page.locator("#status").text_content() == "Saved: \u2068“science”\u2069."
    with opened(browser, session(labels, ROWS, CLASSES), width=800) as (page, _):  # another day
        assert count(page) == "20 of 40 labelled"
        assert text(page) not in expected


def test_keys_in_quick_succession_each_label_a_text_of_their_own(browser: Browser, labels: Path) -> None:
    with opened(browser, session(labels, ROWS, CLASSES)) as (page, place):
        shown = list[str]()
        page.route("**/answer", lambda route: (page.wait_for_timeout(20), shown.append(route.request.post_data), route.continue_()))
        for key in "123321123":
            page.keyboard.press(key)
        text(page)
        assert [*written(labels).values()] == [CLASSES[int(key) - 1] for key in "123321123"]
        assert len(set(shown)) == 9
        press(page, "Backspace")
        page.evaluate("document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '1', repeat: true, bubbles: true }))")
        text(page)
        assert place.session.progress().num_labelled == 8  # a key that is held labels nothing


def test_a_suggestion_is_accepted_and_a_label_is_kept(browser: Browser, labels: Path) -> None:
    with opened(browser, suggesting(session(labels, ROWS, CLASSES), "politics")) as (page, _):
        assert page.locator("#accept").text_content() == "Accept \u2068“politics”\u2069 80%Entera"
        first = text(page)
        press(page, "3")
        press(page, "Enter")
        press(page, "a")
        assert [*written(labels).values()] == ["science", "politics", "politics"]
        while text(page) != first:
            press(page, "ArrowLeft")
        assert page.locator("#go-on").text_content() == "Keep \u2068“science”\u2069 Enter"
        press(page, "Enter")
        assert written(labels)[first] == "science"
        page.keyboard.press("Tab")  # with the keyboard, a button has Enter and Space to itself
        page.get_by_role("button", name="Skip").focus()
        before = written(labels)
        press(page, "Enter")
        assert written(labels) == before
        button(page, "sport").click()
        press(page, "Space")  # after a click it skips, and does not press the button again
        assert len(written(labels)) == len(before)


def test_classes_beyond_ten_are_typed_and_nothing_is_labelled_by_accident(browser: Browser, labels: Path) -> None:
    with opened(browser, suggesting(session(labels, ROWS, MANY), "theta")) as (page, _):
        names, first = page.locator("#classes bdi"), text(page)
        press(page, "a")  # begins alpha
        sync_api.expect(page.locator("#filter")).to_have_value("a")
        press(page, "Backspace")
        press(page, "4")  # begins a name as well
        sync_api.expect(names).to_have_text(["4 wheels"])
        press(page, "Escape")
        sync_api.expect(names).to_have_count(len(MANY))
        assert not labels.exists()
        page.keyboard.type("card")
        sync_api.expect(names).to_have_text(["card", "card lost"])
        assert page.locator("#classes li").first.locator("kbd").text_content() == "Enter"
        page.keyboard.type(" l")
        assert press(page, "Enter") != first
        assert written(labels) == {first: "card lost"}
        page.keyboard.type("xx")
        press(page, "Enter")
        assert len(written(labels)) == 1
        press(page, "Escape")
        page.keyboard.type("card\nlam\n2")
        press(page, "Enter")  # the suggestion
        assert [*written(labels).values()] == ["card lost", "card", "lambda", "beta", "theta"]
        press(page, "?")
        assert "a types here, since a class begins with it" in page.locator("#keys").text_content()
        press(page, "1")
        assert len(written(labels)) == 5  # the help has the keys
        press(page, "Escape")
        sync_api.expect(page.locator("#help")).to_be_hidden()


@pytest.mark.parametrize(
    ("classes", "keys"),
    [
        (("0", "1"), ["0", "1"]),  # a digit that is a class is its key
        (("-1", "0", "1"), ["2", "0", "1"]),
        (("constructor", "__proto__"), ["1", "2"]),
        (tuple(map(str, range(12))), [""] * 12),  # each begins a name, so it types
        (MANY, [*"123567890", "", "", "", ""]),  # 4 does
    ],
)
def test_every_button_shows_a_key_that_cannot_mean_another_class(
    browser: Browser, labels: Path, classes: tuple[str, ...], keys: list[str]
) -> None:
    with opened(browser, session(labels, ROWS, classes)) as (page, _):
        assert page.locator("#classes kbd").all_text_contents() == keys


def test_several_labels_are_pressed_one_by_one(browser: Browser, labels: Path) -> None:
    with opened(browser, suggesting(session(labels, ROWS, CLASSES, several=True), "sport", "science")) as (page, _):
        first = text(page)
        for key in "1231":
            assert press(page, key) == first
        assert page.locator("#classes button[aria-pressed=true]").count() == 2
        press(page, "Enter")
        press(page, "n")
        press(page, "a")
        press(page, "2")
        press(page, "Enter")
        press(page, "Enter")  # nothing is pressed: the suggestion
        assert [*written(labels).values()] == ["politics|science", "", "sport|politics|science", "sport|science"]
        button(page, "politics").focus()
        press(page, "Space")
        assert page.evaluate("document.activeElement.textContent") == "2politics"  # the keyboard goes on from there
        button(page, "science").click()
        press(page, "Enter")
        assert [*written(labels).values()][-1] == "politics|science"


def test_hostile_and_long_texts_stay_text(browser: Browser, labels: Path) -> None:
    markup = f"<img src=x onerror=window.run=1><script>window.run=1</script> {HOSTILE}"
    rows = [
        {"text": f"{markup} {number} " + "long " * 20_000 * number, **{f"{markup}{column}": markup for column in range(7)}}
        for number in range(2)
    ]
    with opened(browser, session(labels, rows, [markup, "b"], {"b": [markup]}), width=390) as (page, _):
        for _ in range(2):
            assert text(page) in [row["text"].replace("\r\n", "\n") for row in rows]
            assert page.locator("#moves").is_visible()
            page.locator("summary").first.click()
            assert page.locator("#columns dd").count() == 7
            assert "<img src=x" in page.locator("#columns dd").first.text_content()
            assert "<img src=x" in page.locator("#classes").text_content()
            press(page, "1")
        assert page.locator("#finished").is_visible()
        assert page.locator("#command").text_content() == COMMAND
        page.locator("#back").click()
        assert text(page) in [row["text"] for row in rows]


def test_the_parts_of_a_text_have_their_names(browser: Browser, labels: Path) -> None:
    row = {"title": "حبر", "body": "none left"}
    store = LabelStore(labels, [Record(JOINT.join(row.values()), b"", (row,))], JOINT.join(row))
    with opened(browser, Session(store, CLASSES, {}), width=390) as (page, _):
        assert page.locator("#text > *").all_text_contents() == ["title", "حبر", "body", "none left"]
        assert page.evaluate("getComputedStyle(document.getElementById('text')).direction") == "rtl"  # that of the text


def test_what_the_labels_tell_is_shown_and_no_more(browser: Browser, labels: Path) -> None:
    place, known = session(labels, ROWS, CLASSES), Assessment()
    progress = place.progress
    place.progress = lambda: replace(progress(), assessment=known)  # type: ignore[method-assign]
    with opened(browser, place, width=800) as (page, _):
        side = page.locator("#progress")
        assert "Not known yet." in side.text_content()
        assert "%" not in side.text_content()
        assert page.locator("svg").count() == 0
        known = Assessment(Estimate(0.823, 0.71, 0.9), ((10, 0.5), (20, 0.823)), Estimate(0.86, 0.79, 0.91), 20)
        drawn = Counter[bool]()
        for _ in range(12):
            drawn[page.get_by_text("drawn at random: counts for the accuracy, so there is no suggestion").is_visible()] += 1
            press(page, "1")
        assert drawn[True] == place.progress().num_random > 0
        told: Any = side.text_content()
        assert "82%between 71% and 90% (95% interval) on new texts" in told
        assert f"{drawn[True]} labelled texts were drawn at random; only these count here." in told
        assert "With 100 more labels: about 86%, between 79% and 91%." in told
        assert side.locator("svg").get_attribute("aria-label") == "Learning curve: 10 labels 50%, 20 labels 82%"
        assert "politics0science0" in told
        assert "sport12" not in told.partition("Labels per class")[0]


def test_a_server_that_is_gone_is_told_and_a_press_is_not_taken_for_the_next_text(browser: Browser, labels: Path) -> None:
    with labelling(session(labels, ROWS, CLASSES)) as place, open_page(browser, place.url) as (page, _):
        sync_api.expect(page.locator("#work")).to_be_visible()
        press(page, "1")
        before = text(page)
        page.context.set_offline(True)
        for key in "231":
            page.keyboard.press(key)
        assert text(page) == before
        told = page.locator("#problem").text_content()
        assert told.startswith("mha label does not answer. All labels before this text are on disk; the last press may not be.")
        assert len(written(labels)) == 1
        page.context.set_offline(False)
        assert press(page, "3") != before
        assert page.locator("#problem").text_content() == ""
        assert written(labels)[before] == "science"


def test_an_address_without_its_secret_shows_no_text(browser: Browser, labels: Path) -> None:
    with labelling(session(labels, ROWS, CLASSES)) as place, open_page(browser, place.url.partition("#")[0]) as (page, _):
        sync_api.expect(page.locator("#problem")).to_contain_text("open the whole address that mha label prints")
        assert page.locator("#text").text_content() == ""
        page.goto(place.url)  # only what is behind the # changes
        sync_api.expect(page.locator("#work")).to_be_visible()
