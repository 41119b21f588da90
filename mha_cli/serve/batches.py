"""Texts of several requests, computed together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from mha_cli.runtime.classifier import Classifier, Prediction
from mha_cli.runtime.stream import most_together


class _Asked(NamedTuple):
    texts: list[str]
    written: Callable[[list[Prediction]], Any]
    answer: asyncio.Future[Any]


class Batches:
    """Computes in one thread of its own. What is asked while it computes is the next batch; no request waits for company.

    Args:
        classifier: classifier that answers.
    """

    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier
        self._most_together = most_together(len(classifier.classes))
        self._thread = ThreadPoolExecutor(1, "mha")
        self._waiting: deque[_Asked] = deque()
        self._work: asyncio.Task[None] | None = None

    async def alone(self, work: Callable[[], Any]) -> Any:
        """What a function gives that computes something else."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def answer(self, texts: list[str], written: Callable[[list[Prediction]], Any]) -> Any:
        """What ``written``, called in the thread, makes of the predictions; nothing is computed for a caller who is cancelled before."""
        asked = _Asked(texts, written, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._compute())
        return await asked.answer

    async def _compute(self) -> None:
        while batch := self._next():
            for asked, result in zip(batch, await self.alone(partial(self._results, batch)), strict=True):
                if isinstance(result, Exception) and not asked.answer.done():
                    asked.answer.set_exception(result)
                elif not asked.answer.done():
                    asked.answer.set_result(result)

    def _next(self) -> list[_Asked]:
        batch: list[_Asked] = []
        number = 0
        while self._waiting and (not batch or number + len(self._waiting[0].texts) <= self._most_together):
            if not (asked := self._waiting.popleft()).answer.done():
                batch.append(asked)
                number += len(asked.texts)
        return batch

    def _results(self, batch: list[_Asked]) -> list[Any]:
        try:
            predictions = iter(self._classifier.predict([text for asked in batch for text in asked.texts]))
            return [asked.written(list(islice(predictions, len(asked.texts)))) for asked in batch]
        except Exception as error:  # nobody's request fails for another one's text
            return [error] if len(batch) == 1 else [self._results([asked])[0] for asked in batch]
