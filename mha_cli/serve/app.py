"""The service as an application: requests, computed together, and their answers."""

import asyncio
import base64
import hashlib
import json
import re
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Annotated, Any, NamedTuple

from fastapi import Body, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, ConfigDict, Discriminator, FailFast, Field, Tag, model_validator
from starlette.exceptions import HTTPException

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.errors import MhaError, printable
from mha_cli.pages.inspection import live_page, model_figures
from mha_cli.records.objects import plain_json
from mha_cli.runtime.choice import Choice
from mha_cli.runtime.classifier import Classifier, Prediction
from mha_cli.runtime.inspection import look_inside
from mha_cli.runtime.stream import most_together
from mha_cli.serve.server import Failure, error_response
from mha_cli.version import __version__

MOST_WORDS = 256  # of a text that is explained: attention weights grow with the square
FORM = 'send {"text": "…"}, or to /predict {"texts": ["…", …]}'


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _fail_fast(cls, asked: Any) -> Any:
        """Leave one unknown key, so that one fault is told and not a hundred thousand."""
        if not isinstance(asked, dict):
            return asked
        unknown = next((name for name in asked if name not in cls.model_fields), None)
        return {name: asked[name] for name in (*cls.model_fields, unknown) if name in asked}


class OneText(_Body):
    """A text."""

    text: str


class ManyTexts(_Body):
    """Several texts."""

    texts: Annotated[list[str], FailFast()]  # a fault is told, not half a million of them


Asked = Annotated[
    Annotated[OneText, Tag("text")] | Annotated[ManyTexts, Tag("texts")],
    Discriminator(lambda asked: "texts" if isinstance(asked, dict) and "texts" in asked else "text"),
]


class _Answered(BaseModel):
    """As of mha predict with --json; docs/predict.md has the meaning of each."""

    id: int = Field(description="number of the text, from 1")
    probability: float
    probabilities: dict[str, float]
    tokens: int
    unknown: int
    truncated: bool
    empty: bool
    all_unknown: bool


class Answer(_Answered):
    """The answer of a model that gives a text one label."""

    label: str | None


class SeveralLabels(_Answered):
    """The answer of a model that gives a text several labels."""

    labels: list[str]


class LookInside(BaseModel):
    """An answer, and what --json gives of mha explain and mha attention; these are null where notes say why."""

    answer: Answer | SeveralLabels
    explanation: dict[str, Any] | None
    attention: dict[str, Any] | None
    notes: list[str]


def application(checkpoint: Checkpoint) -> FastAPI:
    """What answers requests with a checkpoint."""
    name = model_figures(checkpoint)["model"]
    checkpoint = replace(checkpoint, name=name)  # messages tell nobody the folders of this machine
    choice, batches = Choice(), Batches(Classifier(checkpoint))
    most_texts = most_together(len(checkpoint.class_names))
    page = live_page(checkpoint)
    policy = content_security_policy(page)
    failures: dict[int | str, dict[str, Any]] = {status: {"model": Failure} for status in (400, 408, 413, 415, 421, 422, 429, 500, 503)}
    app = FastAPI(title="mha", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)

    def one(predictions: list[Prediction]) -> str:
        return plain_json(choice.as_json(1, predictions[0]))

    def many(predictions: list[Prediction]) -> str:
        return plain_json([choice.as_json(number, prediction) for number, prediction in enumerate(predictions, 1)])

    def inside(text: str) -> str:
        explanation, attention = look_inside(checkpoint, text, MOST_WORDS)
        answer = choice.as_json(1, explanation.prediction)
        found = {"explanation": explanation.as_json(), "attention": attention.as_json(), "notes": explanation.notes}
        return plain_json({"answer": answer, **found})

    @app.post("/predict", response_model=Answer | SeveralLabels | list[Answer] | list[SeveralLabels], responses=failures)
    async def predict(asked: Annotated[Asked, Body()]) -> Response:
        """Classify a text, or several."""
        if isinstance(asked, OneText):
            return _json(await batches.answer([asked.text], one))
        if len(asked.texts) > most_texts:
            raise MhaError(f"{len(asked.texts):,} texts", f"send {most_texts:,} at a time at most")
        return _json(await batches.answer(asked.texts, many))

    @app.post("/explain", response_model=LookInside, responses=failures)
    async def explain(asked: OneText) -> Response:
        """Classify a text, and show which words decided and which look at which."""
        try:
            return _json(await batches.alone(lambda: inside(asked.text)))
        except MhaError as error:  # no words, or too many
            answer = json.loads(await batches.answer([asked.text], one))
            return _json(plain_json({"answer": answer, "explanation": None, "attention": None, "notes": [str(error)]}))

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", responses={421: failures[421]})
    async def healthz() -> dict[str, str]:
        """Say that the service is there, and with which model."""
        return {"status": "ok", "model": name, "version": __version__}

    @app.get("/", response_class=HTMLResponse)
    async def root() -> HTMLResponse:
        """A page on which a text is typed."""
        return HTMLResponse(page, headers={"Content-Security-Policy": policy})

    @app.exception_handler(RequestValidationError)
    async def other_form(request: Request, error: RequestValidationError) -> Response:
        if not re.match(r"application/([\w.-]+\+)?json\b", request.headers.get("content-type", "")):
            return error_response(415, "the body is not sent as JSON; add the header Content-Type: application/json")
        return error_response(422, f"{_first_fault(error)}; {FORM}")

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> Response:
        unread = f"the body cannot be read as JSON: it is not UTF-8, is nested too deeply, or has a number of thousands of digits; {FORM}"
        return error_response(error.status_code, unread if error.status_code == 400 else error.detail, error.headers)

    @app.exception_handler(MhaError)
    async def unanswerable(_: Request, error: MhaError) -> Response:
        return error_response(422, str(error))

    @app.exception_handler(Exception)
    async def fault(_: Request, error: Exception) -> Response:
        return error_response(500, "a fault in mha; its stderr says which")

    return app


class _Asked(NamedTuple):
    texts: list[str]
    written: Callable[[list[Prediction]], Any]
    answer: asyncio.Future[Any]


class Batches:
    """Computes in one thread of its own. What is asked while it computes is the next batch; no request waits for company."""

    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier
        self._most_together = most_together(len(classifier.classes))
        self._thread = ThreadPoolExecutor(1, "mha")
        self._waiting: deque[_Asked] = deque()
        self._work: asyncio.Task[None] | None = None

    async def alone(self, work: Callable[[], Any]) -> Any:
        """The result of a function that computes something else."""
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


def content_security_policy(page: str) -> str:
    """What lets a page run its own style and script, ask its own server, and nothing else."""
    policy = "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    for tag in ("style", "script"):
        own = page.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
        policy += f"; {tag}-src 'sha256-{base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()}'"
    return policy


def _json(content: str) -> Response:
    return Response(content, media_type="application/json")


def _first_fault(error: RequestValidationError) -> str:
    fault = error.errors()[0]
    if fault["type"] == "json_invalid":
        return f"the body is not JSON: {fault['ctx']['error']} at character {fault['loc'][-1]}"
    if fault["type"] == "model_attributes_type" or len(fault["loc"]) == 1:
        return "the body is not a JSON object"
    *_, name, number = ("", *fault["loc"]) if isinstance(fault["loc"][-1], int) else ("", *fault["loc"], None)
    return f"{printable(str(name))}{'' if number is None else f'[{number}]'}: {fault['msg']}"
