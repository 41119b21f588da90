"""The page of `mha shares` in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mha_cli.pages.inspection import write_shares_page
from mha_cli.runtime.shares import ClassShare, GroupShares
from tests.browser import open_page
from tests.checkpoints import small_checkpoint
from tests.pages.pages import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("groups", [(None,), ("2026-01",), ("2026-01", HOSTILE)])
def test_every_share_has_a_bar_and_its_interval(groups: tuple[str | None, ...], browser: Browser, tmp_path: Path) -> None:
    classes = [ClassShare(HOSTILE, 0.75, (0.5, 0.875), 7), ClassShare("pos", 0.25, (0.125, 0.5), 3)]
    path = tmp_path / "shares.html"
    write_shares_page([GroupShares(group, 10, classes) for group in groups], small_checkpoint(), path)
    with open_page(browser, path.as_uri(), width=360) as (page, told):
        assert told == []
        assert HOSTILE in (page.locator("#shares").text_content() or "")
        assert page.locator(".bar").count() == 2 * len(groups)
        assert groups[0] is None or groups[0] in (page.locator("#shares").text_content() or "")
        assert page.locator(".number").first.text_content() == "75.0 % (50.0 % to 87.5 %); 7 of 10 answers"
        bar, reach = (page.locator(name).first.bounding_box() for name in (".bar", ".range"))
        assert bar and reach
        assert [(reach["x"] - bar["x"]) / bar["width"], reach["width"] / bar["width"]] == pytest.approx([0.5, 0.375], abs=0.01)
