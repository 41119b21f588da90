"""Shares of the classes among new texts, without their labels: how many texts have a class, not which.

Counting answers is wrong where classes are confused: a class that is rare among the new texts gets the mistakes of frequent ones.
Expectation maximization finds the shares that explain the probabilities best. It assumes that the texts of each class look as they did
in training: only the shares have changed.

Source: Saerens, Latinne and Decaestecker 2002, "Adjusting the Outputs of a Classifier to New a Priori Probabilities: A Simple Procedure",
eq. 2.9; Efron and Tibshirani 1993, "An Introduction to the Bootstrap", section 13.3 (percentile interval).

Axes: N new texts, M held-out texts, C classes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from mha_cli.arrays import Array, Float64s, Floats
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.checkpoint.held_out import HeldOut, held_out_of, rounded
from mha_cli.errors import MhaError, printable
from mha_cli.records.objects import as_text
from mha_cli.runtime.intervals import interval

DRAWS = 200  # of the bootstrap
MOST_DRAWN = 10_000  # new texts in a draw; of more, the intervals are those of so many, which are wider
CLOSE, MOST_STEPS = 1e-6, 2_000  # change of every share below which expectation maximization ends, and its most steps
SMALLEST = 1e-7  # probability
LEAST = 0.01  # probability that counts: what a model leaves to every class, however odd, would look like evidence for a rare one
SPREADS = (0.5, 1.0)  # standard deviations of the scale and the shifts of logits, a wide prior for few held-out texts
MOST_GROUPS, EMPTY = 1_000, "(empty)"  # groups of texts, and the name of the group without a value
Period = Literal["day", "week", "month", "year"]
_FORMATS: dict[str, str] = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m", "year": "%Y"}


@dataclass(frozen=True)
class ClassShare:
    """The share of a class among new texts, in [0, 1]."""

    name: str
    share: float
    interval: tuple[float, float]  # 95 % interval of the share
    counted: int  # texts that are answered with the class


@dataclass(frozen=True)
class GroupShares:
    """The shares of all classes in a group of texts, the largest first."""

    group: str | None  # None for all texts
    num_texts: int
    classes: list[ClassShare]


class Grouping(NamedTuple):
    """A column whose values group texts, or whose dates do so by a period."""

    column: str
    period: Period | None = None

    @classmethod
    def parse(cls, given: str) -> Grouping:
        """What ``COLUMN`` or ``COLUMN:PERIOD`` means."""
        column, _, period = given.rpartition(":")
        return cls(column, cast("Period", period)) if column and period in _FORMATS else cls(given)

    def group_of(self, value: object, number: int) -> str:
        """The group of the record with this number, from 1, by its value in the column."""
        text = as_text(value).strip()
        if not (self.period and text):
            return text or EMPTY
        day, rest = text[:10], text[10:]
        try:
            if rest and rest[0] not in " T":
                raise ValueError
            return date.fromisoformat(day).strftime(_FORMATS[self.period])
        except ValueError:
            problem = f'record {number}, column "{printable(self.column)}": "{printable(text, 40)}" is no date'
            raise MhaError(problem, f"write dates like 2026-11-29, or group by the values without :{self.period}") from None


class ShareEstimator:
    """Collects the probabilities of new texts by group, and estimates the shares of each group.

    Args:
        checkpoint: model that gives the probabilities; it has to have held-out texts.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint, self._held_out = checkpoint, held_out_of(checkpoint)
        self._probabilities = defaultdict[str | None, list[Floats]](list)

    def add(self, probabilities: Iterable[Sequence[float]], group: str | None = None) -> None:
        """Add texts of a group by the probabilities of all classes, (N, C)."""
        self._probabilities[group] += [np.array(row, np.float16) for row in probabilities]
        if len(self._probabilities) > MOST_GROUPS:
            raise MhaError(f"--by: more than {MOST_GROUPS:,} groups", "take another column, or a period of its dates, such as :month")

    def groups(self, on_draw: Callable[[], None] = lambda: None) -> list[GroupShares]:
        """The shares of each group, by name; ``on_draw`` is called after each draw of the bootstrap."""
        return [
            self._shares(name, np.stack(rows).astype(np.float32), on_draw)
            for name, rows in sorted(self._probabilities.items(), key=lambda item: item[0] or "")
        ]

    def _shares(self, group: str | None, probabilities: Floats, on_draw: Callable[[], None]) -> GroupShares:
        config, held_out, names = self._checkpoint.config, self._held_out, self._checkpoint.class_names
        if config.is_multi_label:
            counted = (probabilities >= rounded(self._checkpoint.label_thresholds)).sum(axis=0)
            of_labels = [
                _with_draws(_two(of_label), HeldOut(_two(known), has_it.astype(np.int32)), False, on_draw)
                for of_label, known, has_it in zip(probabilities.T, held_out.probabilities.T, held_out.labels.T, strict=True)
            ]
            shares, draws = (np.stack([each[part][..., 1] for each in of_labels], axis=-1) for part in (0, 1))
        else:
            counted = np.bincount(probabilities.argmax(axis=1), minlength=len(names))
            shares, draws = _with_draws(probabilities, held_out, config.training.class_weights == "balanced", on_draw)
        found = map(ClassShare, names, shares.tolist(), map(interval, draws.T), counted.tolist())
        return GroupShares(group, len(probabilities), sorted(found, key=lambda each: -each.share))


def fit_shares(probabilities: Float64s, prior: Float64s, start: Float64s | None = None) -> Float64s:
    """The most likely shares, (C,), by probabilities (N, C) that were fitted where the shares were ``prior``, (C,)."""
    shares = prior if start is None else start
    for _ in range(MOST_STEPS):
        weighted = probabilities * (shares / prior)
        weighted /= weighted.sum(axis=1, keepdims=True)
        before, shares = shares, weighted.mean(axis=0)
        if np.abs(shares - before).max() < CLOSE:
            break
    return shares


def _with_draws(probabilities: Floats, held_out: HeldOut, balanced: bool, on_draw: Callable[[], None]) -> tuple[Float64s, Float64s]:
    """The shares, (C,), and those of draws of the new and the held-out texts, (DRAWS, C).

    ``balanced`` says that each held-out text counts by the inverse of its class's size, as in the training.
    """
    rng, logits_NC, logits_MC = np.random.default_rng(0), _logits(probabilities), _logits(held_out.probabilities)
    weights_M = 1 / np.bincount(held_out.labels)[held_out.labels] if balanced else np.ones(len(logits_MC))
    weights_M *= len(weights_M) / weights_M.sum()
    shares = fit_shares(_probabilities(logits_NC), _prior(_probabilities(logits_MC), weights_M))
    if len(logits_NC) > MOST_DRAWN:
        logits_NC = logits_NC[rng.choice(len(logits_NC), MOST_DRAWN, replace=False)]
    steps, draws = _calibration_steps(logits_MC, held_out.labels, weights_M), []
    for _ in range(DRAWS):
        rows, known = (rng.integers(len(logits), size=len(logits)) for logits in (logits_NC, logits_MC))
        scale, *shifts = steps[known].sum(axis=0) - steps.sum(axis=0)
        drawn, held_out_drawn = (_probabilities((1 + scale) * logits + shifts) for logits in (logits_NC[rows], logits_MC[known]))
        draws.append(fit_shares(drawn, _prior(held_out_drawn, weights_M[known]), np.maximum(shares, SMALLEST)))
        on_draw()
    return shares, np.stack(draws)


def _calibration_steps(logits_MC: Float64s, labels: Array, weights_M: Float64s) -> Float64s:
    """The part of each held-out text, (M, 1 + C), in the scale and the shifts of logits that fit all: a step of Newton from 1 and 0.

    Source: Alexandari, Kundaje and Shrikumar 2020, "Maximum Likelihood with Bias-Corrected Calibration is Hard-To-Beat at Label Shift
    Adaptation", section 2.2.
    """
    probabilities = np.exp(logits_MC)
    num_classes, rows = probabilities.shape[1], np.arange(len(labels))
    around_mean = logits_MC - (probabilities * logits_MC).sum(axis=1, keepdims=True)
    gradients = np.column_stack([around_mean[rows, labels], np.eye(num_classes)[labels] - probabilities]) * weights_M[:, None]
    weighted = weights_M[:, None] * probabilities
    hessian = np.diag(1 / np.square([SPREADS[0], *[SPREADS[1]] * num_classes]))
    hessian[0, 0] += (weighted * around_mean**2).sum()
    hessian[0, 1:] = hessian[1:, 0] = (weighted * around_mean).sum(axis=0)
    hessian[1:, 1:] += np.diag(weighted.sum(axis=0)) - weighted.T @ probabilities
    return np.asarray(np.linalg.solve(hessian, gradients.T).T)


def _logits(probabilities: Floats) -> Float64s:
    return np.log(np.maximum(probabilities, SMALLEST), dtype=np.float64)


def _probabilities(logits: Float64s) -> Any:
    """Probabilities from logits, (N, C); those below ``LEAST`` are 0, unless no other is larger."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    weights[weights < LEAST * np.minimum(1 / LEAST, weights.sum(axis=1, keepdims=True))] = 0
    return weights / weights.sum(axis=1, keepdims=True)


def _prior(probabilities: Floats, weights: Float64s) -> Float64s:
    """The mean probability of every class among held-out texts, (C,), with half a text for a class that has none."""
    return np.maximum(np.average(probabilities, axis=0, weights=weights), 0.5 / len(weights))


def _two(probabilities: Floats) -> Floats:
    """The probabilities of a label, (N,), as those of two classes, (N, 2)."""
    return np.stack([1 - probabilities, probabilities], axis=1)
