"""The page of the service in a browser: it answers while one types, loads nothing from elsewhere, and shows text as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from mha_cli.config.settings import Config
from mha_cli.serve.server import Limits
from tests.browser import open_page
from tests.checkpoints import small_checkpoint
from tests.pages.pages import HOSTILE
from tests.serve.services import ask, service

sync_api = pytest.importorskip("playwright.sync_api")

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.extras]

MARKUP = "<img src=x onerror=window.run=1><script>window.run=1</script> "
CLASSES = (f"{MARKUP}one", "</script><b>two</b>")
WORDS = {CLASSES[1]: [MARKUP.strip(), "a second line"]}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A service whose classes have hostile names and words, and that takes short texts only."""
    checkpoint = small_checkpoint(CLASSES)
    with service(replace(checkpoint, config=checkpoint.config.changed(classes=WORDS)), Limits(body_bytes=10_000)) as port:
        yield port


@pytest.fixture
def opened(browser: Browser, port: int) -> Iterator[tuple[Page, list[str]]]:
    """The page on a dark telephone; at the end of a test it has asked nobody else and has nothing to complain of."""
    with open_page(browser, f"http://127.0.0.1:{port}/", width=360, dark=True) as (page, told):
        yield page, told
        assert told
        assert all(line.startswith((f"http://127.0.0.1:{port}/", "data:,")) for line in told)
        assert not page.evaluate("'run' in window || document.images.length || document.scripts.length > 1")


@pytest.fixture
def page(opened: tuple[Page, list[str]]) -> Page:
    return opened[0]


def bars(page: Page) -> list[tuple[str, str, str]]:
    """Name and number of every bar that is not folded, and its share."""
    name, number, share = "one.querySelector('bdi').textContent", "one.querySelector('.number').textContent", "one.lastChild.style.cssText"
    rows = page.eval_on_selector_all("#classes li", f"all => all.map(one => [{name}, {number}, {share}])")
    return [(name, number, share.removeprefix("--share: ").removesuffix(";")) for name, number, share in rows]


def answered(page: Page, text: str) -> None:
    """Type a text, and wait until it is what is shown."""
    with page.expect_response(lambda response: response.url.endswith("/explain") and response.request.post_data_json == {"text": text}):
        page.locator("#text").fill(text)


def test_it_answers_as_one_types(page: Page, port: int) -> None:
    page.keyboard.type("the film was superb", delay=5)  # the text has the focus
    sync_api.expect(page.locator("#decided").locator(".word")).to_have_text(["the", "film", "was", "superb"])
    found = ask(port, "/explain", {"text": "the film was superb"})[1]
    answer, occlusion, weights = found["answer"], found["explanation"]["occlusion"], found["attention"]["weights"]
    assert page.locator("#prediction").text_content() == f"{answer['label']} {answer['probability']:.4f}"
    ranked = sorted(answer["probabilities"].items(), key=lambda one: -one[1])
    assert bars(page) == [(name, f"{probability:.4f}", str(probability)) for name, probability in ranked]
    strongest = max(range(4), key=lambda position: abs(occlusion[position]))
    assert (
        page.locator("#shown")
        .text_content()
        .startswith(f"Decides most: \u2068“{found['explanation']['words'][strongest]}”\u2069, word {strongest + 1} of 4")
    )
    page.locator("#decided .word").nth(1).focus()  # the keyboard goes on from there
    page.keyboard.press("ArrowRight")
    row = [sum(head[2][other] for block in weights for head in block) / sum(map(len, weights)) for other in range(4)]
    looked = f"looks most at \u2068“{found['explanation']['words'][row.index(max(row))]}”\u2069 {max(row):.4f}"
    assert looked in page.locator("#shown").text_content()
    page.get_by_text("Where words look").click()
    page.locator("#head").select_option("1")
    assert f"{max(weights[0][1][2]):.4f}" in page.locator("#shown").text_content()
    page.keyboard.press("Escape")
    assert page.locator("#shown").text_content().startswith("Decides most")


def test_classes_have_bars_before_anybody_types_and_words_beside_their_names(page: Page) -> None:
    assert bars(page) == [(name, "", "0") for name in CLASSES]
    assert page.locator("#classes .note").all_text_contents() == ["", MARKUP.strip()]
    for bar in page.locator("#classes .bar").all():
        assert (bar.bounding_box() or {})["width"] > 200
    answered(page, "superb")
    sync_api.expect(page.locator("#classes .number").first).not_to_be_empty()
    assert [name == CLASSES[1] for name, *_ in bars(page)] == [bool(words) for words in page.locator("#classes .note").all_text_contents()]
    assert not page.locator("#model").is_visible()


def test_many_classes_are_folded_and_several_labels_named(browser: Browser) -> None:
    names = tuple(f"class {number}" for number in range(12))
    with (
        service(small_checkpoint(names, task="multi-label")) as port,
        open_page(browser, f"http://127.0.0.1:{port}/", width=390) as (page, _),
    ):
        assert [name for name, *_ in bars(page)] == [*names[:10]]
        answered(page, "the film was superb")
        answer = ask(port, "/predict", {"text": "the film was superb"})[1]
        assert len(answer["labels"]) > 1
        sync_api.expect(page.locator("#prediction")).to_have_text(", ".join(answer["labels"]))
        ranked = sorted(names, key=lambda name: -answer["probabilities"][name])
        assert [name for name, *_ in bars(page)] == ranked[:10]
        page.get_by_text("2 more classes").click()
        sync_api.expect(page.locator("#others bdi")).to_have_text(ranked[10:])
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_classes_in_levels_are_folded_below_their_branches(browser: Browser) -> None:
    names = ("hardware > ink", "hardware > paper", "other", "software > login", "software > mail > inbox")
    checkpoint, data = small_checkpoint(names), {"source": "files", "train": "a.csv", "label_levels": ">"}
    checkpoint = replace(checkpoint, config=Config.model_validate(checkpoint.config.model_dump() | {"data": data}))
    with service(checkpoint) as port, open_page(browser, f"http://127.0.0.1:{port}/", width=360) as (page, told):
        answered(page, "the film was superb")
        found = ask(port, "/predict", {"text": "the film was superb"})[1]["probabilities"]
        sums = {branch: sum(found[name] for name in names if name.startswith(branch)) for branch in ("hardware", "other", "software")}
        ranked = sorted(sums, key=lambda branch: -sums[branch])
        sync_api.expect(page.locator("#classes > li > bdi")).to_have_text(ranked)
        assert page.locator("#classes > li > .number").all_text_contents() == [f"{sums[branch]:.4f}" for branch in ranked]
        assert not page.get_by_text("hardware > ink", exact=True).is_visible()
        page.locator("#classes > li", has_text="hardware > ink").locator("summary", has_text="2 classes").click()
        below = sorted(names[:2], key=lambda name: -found[name])
        sync_api.expect(page.locator("#classes details[open] bdi")).to_have_text(below)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert not [line for line in told if "://" not in line]


def test_an_example_can_be_clicked(page: Page) -> None:
    page.get_by_role("button", name="Example").click()
    sync_api.expect(page.locator("#decided").locator(".word").nth(3)).to_have_text("slow")


def test_hostile_text_stays_text(page: Page) -> None:
    answered(page, MARKUP + HOSTILE)
    sync_api.expect(page.locator("#decided")).to_contain_text("onerror")
    assert "<img src=x onerror=" in page.locator("#model").text_content() + page.locator("#classes").text_content()


def test_the_page_is_dark_and_no_wider_than_a_telephone(page: Page) -> None:
    for text in ("a" * 500, "the film was superb " * 5):
        answered(page, text)
        sync_api.expect(page.locator("#inside")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 28)"
    assert page.locator("[aria-live=polite]").count() == 2


def test_no_words_give_no_explanation_and_no_text_gives_nothing(page: Page) -> None:
    answered(page, "\u200b")
    sync_api.expect(page.locator("#notes")).to_have_text("the text has no words; give a text with at least one word")
    sync_api.expect(page.locator("#inside")).to_be_hidden()
    page.locator("#text").fill("  ")
    sync_api.expect(page.locator("#prediction")).to_have_text("")
    assert bars(page) == [(name, "", "0") for name in CLASSES]


def test_an_answer_that_comes_late_is_dropped(page: Page) -> None:
    page.evaluate("""() => {
        const real = fetch;
        window.fetch = async (path, asked) => {
            const response = await real(path, { ...asked, signal: undefined });
            if (asked.body.includes("first")) await new Promise((go) => { window.let_go = go; });
            return response;
        };
    }""")
    page.locator("#text").fill("first")
    while not page.evaluate("'let_go' in window"):
        page.wait_for_timeout(10)
    answered(page, "second")
    sync_api.expect(page.locator("#decided").locator(".word")).to_have_text(["second"])
    page.evaluate("window.let_go()")
    page.wait_for_timeout(50)
    assert page.locator("#decided").locator(".word").all_text_contents() == ["second"]


def test_refusals_and_a_server_that_is_gone_are_told_in_words(opened: tuple[Page, list[str]]) -> None:
    page, told = opened
    page.locator("#text").fill("a" * 10_001)
    sync_api.expect(page.locator("#problem")).to_have_text("the body has more than 10,000 bytes; send fewer or shorter texts")
    page.context.set_offline(True)
    page.locator("#text").fill("superb")
    sync_api.expect(page.locator("#problem")).to_have_text("no answer: Failed to fetch; does mha serve still run?")
    page.context.set_offline(False)
    answered(page, "superb")
    sync_api.expect(page.locator("#problem")).to_have_text("")
    assert {line.partition(":")[0] for line in told} == {"http", "Failed to load resource"}
    told[:] = [line for line in told if line.startswith("http")]
