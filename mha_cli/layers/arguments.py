"""Checks of constructor arguments that the layers share."""

from __future__ import annotations

from collections.abc import Sequence


def check_sizes(**sizes: int | None) -> None:
    """Refuse a size below 1; None stands for a default.

    Raises:
        ValueError: naming the argument and its value.
    """
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise ValueError(f"{name} is {size}; it must be at least 1")


def check_shares(**shares: float) -> None:
    """Refuse a dropout rate outside [0, 1).

    Raises:
        ValueError: naming the argument and its value.
    """
    for name, share in shares.items():
        if not 0.0 <= share < 1.0:
            raise ValueError(f"{name} is {share}; it must be at least 0 and below 1")


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Refuse a word that is not among the choices.

    Raises:
        ValueError: naming the argument, its value and the choices.
    """
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; choose from {', '.join(choices)}")
