"""Labels that look like several in one cell."""

import pytest

from mha_cli.sources.combined_labels import find_combined


@pytest.mark.parametrize(
    ("classes", "found"),
    [
        ({"Delivery": 9, "Technical": 8, "Delivery,Technical": 5}, (5, "Delivery,Technical", ",")),
        ({"a|b": 2, "b|c": 1, "a | c|": 1, "other": 5}, (4, "a|b", "|")),
        ({"12;45": 3, "45;7": 1, "7;12": 4}, (8, "7;12", ";")),
        ({'["a", "b"]': 3, '["a"]': 2, '["b"]': 4}, (9, '["a", "b"]', ",")),
        ({"['praise']": 24, "['blame']": 24, "['praise', 'price']": 9, "['blame', 'price']": 10, "[]": 1}, (68, "['blame', 'price']", ",")),
        ({"['a']": 5, "['b']": 6}, (11, "['b']", ",")),
        ({"{praise,price}": 5, "{praise}": 6, "{blame,price}": 4, "{blame}": 3}, (9, "{praise,price}", ",")),
        ({"['a', 'b']": 4, "a": 2, "b": 5}, (4, "['a', 'b']", ",")),
    ],
)
def test_several_labels_in_one(classes: dict[str, int], found: tuple[int, str, str]) -> None:
    assert find_combined(classes) == found


@pytest.mark.parametrize(
    "classes",
    [
        {"business, economy": 2, "sport": 20, "business": 5, "economy": 5},
        {"Clothing, Shoes & Jewelry": 50, "Toys": 30, "Home, Garden": 9},
        {"a/c": 9, "heating": 8, "n/a": 7},
        {"home/garden": 9, "home/kitchen": 9, "home": 9, "auto/kitchen": 9, "auto/garden": 9},
        {"1,5": 9, "2,5": 9, "5,0": 9, "5,1": 9, "1,0": 9},
        {"1/5": 9, "2/5": 9, "5/5": 9, "5/1": 9},
        {"Sci/Tech": 9, "Business": 9, "World": 9},
        {"LOC:city": 9, "comp.sys": 9, "card_arrival": 9},
        {},
    ],
)
def test_ordinary_names(classes: dict[str, int]) -> None:
    assert find_combined(classes) == (0, "", "")
