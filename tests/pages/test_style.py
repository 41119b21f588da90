"""The colours of all pages, in light and in dark: the contrast that WCAG 2.2 asks for at level AA."""

import re
from itertools import product

import numpy as np
import pytest

from mha_cli.arrays import Float64s
from tests.documentation import ROOT

STYLE, SCRIPT = ((ROOT / "mha_cli" / "pages" / f"shared.{ending}").read_text("utf-8") for ending in ("css", "js"))
DEEPEST = 0.75  # share of a hue in the deepest shade of a word, as in shared.js


def contrast(one: Float64s, other: Float64s) -> float:
    """The ratio of the luminances of two colours, each three channels from 0 to 255."""
    shares = np.array([one, other]) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    low, high = sorted(linear @ (0.2126, 0.7152, 0.0722))
    return float((high + 0.05) / (low + 0.05))


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_texts_edges_and_bars_can_be_told_from_what_is_behind_them(scheme: int) -> None:
    declared = re.findall(r"--([\w-]+): #(\w{3,6});", re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)[scheme])
    colour = {
        name: np.frombuffer(bytes.fromhex(code if len(code) == 6 else "".join(2 * digit for digit in code)), np.uint8)
        for name, code in declared
    }
    for text, behind in (*product(("ink", "muted", "accent", "mark"), ("page", "panel")), ("on-accent", "accent")):
        assert contrast(colour[text], colour[behind]) >= 4.5, (text, behind)
    for edge, behind in (("edge", "page"), ("edge", "panel"), ("accent", "line"), ("accent", "page")):
        assert contrast(colour[edge], colour[behind]) >= 3, (edge, behind)
    hues = re.findall(r'[A-Z] = "(\d+), (\d+), (\d+)"', SCRIPT)
    assert len(hues) == 3
    for hue in np.array(hues, float):
        assert contrast(colour["ink"], DEEPEST * hue + (1 - DEEPEST) * colour["page"]) >= 4.5, hue
