"""Ours and peers on the same texts: which answers were right, and how far ours is ahead of the best peer."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import numpy as np
import numpy.typing as npt
from harness import Record

Runs = list[dict[str, Any]]
"""The figures of a system's runs, one per seed."""


def packed(right: npt.NDArray[np.bool_]) -> str:
    """Which answers were right, a bit a text, as a short line of JSON holds it."""
    return base64.b64encode(np.packbits(right)).decode()


def unpacked(line: str, num_texts: int) -> npt.NDArray[np.bool_]:
    """The inverse of ``packed``."""
    return np.unpackbits(np.frombuffer(base64.b64decode(line), np.uint8))[:num_texts].astype(bool)


@dataclass(frozen=True)
class SetResults:
    """What came out on one set of texts.

    Args:
        name: name of the set.
        ours: figures of our runs.
        peers: figures of every peer's runs, by its name.
    """

    name: str
    ours: Runs
    peers: dict[str, Runs]

    def best_peer(self, family: str = "") -> str:
        """The most accurate peer whose name begins so, or nothing where there is none.

        It is the best on the texts that are scored, which favours peers: ours was chosen without them.
        """
        found = (peer for peer in self.peers if peer.startswith(family))
        return max(found, key=lambda peer: mean_of(self.peers[peer], "accuracy"), default="")

    @property
    def ahead(self) -> npt.NDArray[np.float64]:
        """The share of our runs that are right less that of the best peer's, on every text."""
        ours, theirs = (
            np.mean([unpacked(run["right"], run["test_texts"]) for run in runs], axis=0)
            for runs in (self.ours, self.peers[self.best_peer()])
        )
        return np.asarray(ours - theirs)


def compared_sets(records: Sequence[Record], ours: str) -> list[SetResults]:
    """The sets on which there are runs of our recipe of that name and of peers; runs of other recipes of ours are left out."""
    sets: dict[str, dict[str, Runs]] = {}
    for record in records:
        settings = record["settings"]
        sets.setdefault(settings["set"], {}).setdefault(settings["system"], []).append(record["figures"])
    results = []
    for name, systems in sets.items():
        peers = {system: runs for system, runs in systems.items() if not system.startswith("mha ")}
        if peers and ours in systems:
            results.append(SetResults(name, systems[ours], peers))
    return results


def mean_of(runs: Runs, figure: str) -> float:
    """The mean of a figure over runs."""
    return mean(run[figure] for run in runs)
