"""The service as an application: requests, computed together, and their answers."""

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, islice
from time import perf_counter
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from fastapi import Body, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, ConfigDict, Discriminator, FailFast, Field, Tag, TypeAdapter, model_validator
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from mha_cli.arrays import Int64s
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.errors import MhaError, printable
from mha_cli.pages.inspection import live_page, model_figures
from mha_cli.records.objects import plain_json
from mha_cli.runtime.choice import Choice
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.engine import multiplications
from mha_cli.runtime.inspection import Steps, looking_inside
from mha_cli.runtime.stream import most_together
from mha_cli.serve.server import Failure, error_response
from mha_cli.sources.in_memory import text_of, texts_in
from mha_cli.text.encoding import EncodedText
from mha_cli.version import __version__

MOST_WORDS = 256  # of a text that is explained: attention weights grow with the square
MOST_CHARACTERS = 1 << 18  # of new requests that are encoded together, before the last one
ROUND, DECAY = 2_000_000_000, 0.9  # multiplications, about 0.1 s; weight of earlier rounds in the measured speed
Unit: TypeAlias = Literal["texts", "words"]  # of a request that predicts, and of one that explains
is_json = re.compile(r"application/([^;\s]+\+)?json\s*(;|$)", re.IGNORECASE).match  # of a content type
FORM = 'send {"text": "…"}, or to /predict {"texts": ["…", …]}'


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _fail_fast(cls, asked: Any) -> Any:
        """Leave one unknown key, so that one fault is found and not a hundred thousand."""
        if not isinstance(asked, dict):
            return asked
        unknown = next((name for name in asked if name not in cls.model_fields), None)
        return {name: asked[name] for name in (*cls.model_fields, unknown) if name in asked}


class OneText(_Body):
    """A text, or an object with its columns where the model has learnt from several."""

    text: str | dict[str, Any]


class ManyTexts(_Body):
    """Several texts."""

    texts: Annotated[list[str | dict[str, Any]], FailFast()]  # one fault is found, not half a million


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


class NoneAnswer(Answer):
    """The answer of a model with ``data.none_label``."""

    none: bool = Field(description="whether the text belongs to no class")


class NodeAnswer(Answer):
    """The answer of a model whose labels have levels."""

    path: list[str] = Field(description="names of the label's levels")


class SeveralLabels(_Answered):
    """The answer of a model that gives a text several labels."""

    labels: list[str]


AnyAnswer: TypeAlias = Answer | NoneAnswer | NodeAnswer | SeveralLabels


class LookInside(BaseModel):
    """An answer, and what --json gives of mha explain and mha attention; these are null where notes say why."""

    answer: AnyAnswer
    explanation: dict[str, Any] | None
    attention: dict[str, Any] | None
    notes: list[str]


def application(checkpoint: Checkpoint, most_seconds: float = 30.0) -> ASGIApp:
    """The application that answers requests with a checkpoint, each within ``most_seconds``; its errors are for ``Guarded`` to tell."""
    name = model_figures(checkpoint)["model"]
    checkpoint = replace(checkpoint, name=name)  # messages tell nobody the folders of this machine
    choice, classifier, explaining = Choice(), Classifier(checkpoint), Classifier(checkpoint.always_encoding)
    batches, most_texts = Batches({"texts": classifier, "words": explaining}, most_seconds), most_together(len(checkpoint.class_names))
    _ = classifier.text_pipeline.latin_reader  # made now, and not by the first round with many texts
    page, columns = live_page(checkpoint), checkpoint.text_columns
    policy = content_security_policy(page)
    failures: dict[int | str, dict[str, Any]] = {status: {"model": Failure} for status in (400, 408, 413, 415, 421, 422, 429, 500, 503)}
    app = FastAPI(title="mha", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)

    async def predicted(given: list[str | dict[str, Any]], one: bool = False) -> str:
        texts = texts_in(given, columns)

        def steps(encoded: Sequence[EncodedText]) -> Steps:
            answers = map(choice.answer, classifier.predictions(texts, encoded, (yield encoded)))
            shown = [answer.as_json(number) for number, answer in enumerate(answers, 1)]
            return plain_json(shown[0] if one else shown)

        return await batches.answer("texts", steps, texts)

    def inside(text: str | dict[str, Any]) -> Steps:
        explanation, view = yield from looking_inside(explaining, text_of(text, columns, "the text"), MOST_WORDS)
        attention, blocks = {**view.answer_and_words(), **view.entropies(), "weights": None}, list[str]()
        found = {
            "answer": choice.answer(explanation.prediction).as_json(1),
            "explanation": explanation.as_json(),
            "notes": explanation.notes,
        }
        for block in view.rounded_weights(6):  # megabytes, in which nothing else runs
            blocks.append(plain_json(block))
            yield ()
        return f"{plain_json({**found, 'attention': attention}).removesuffix('null}}')}[{', '.join(blocks)}]}}}}"

    @app.post("/predict", response_model=AnyAnswer | list[AnyAnswer], responses=failures)
    async def predict(asked: Annotated[Asked, Body()]) -> Response:
        """Classify a text, or several."""
        if isinstance(asked, OneText):
            return _json(await predicted([asked.text], one=True))
        if len(asked.texts) > most_texts:
            raise MhaError(f"{len(asked.texts):,} texts", f"send {most_texts:,} at a time at most")
        return _json(await predicted(asked.texts))

    @app.post("/explain", response_model=LookInside, responses=failures)
    async def explain(asked: OneText) -> Response:
        """Classify a text, and show which words decided and which look at which."""
        try:
            return _json(await batches.answer("words", lambda _: inside(asked.text)))
        except MhaError as error:  # no words, too many, or too expensive
            answer = json.loads(await predicted([asked.text], one=True))
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
        if not is_json(request.headers.get("content-type", "")):
            return error_response(415, "the body is not sent as JSON; add the header Content-Type: application/json")
        return error_response(422, f"{_first_fault(error)}; {FORM}")

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> Response:
        unread = f"the body cannot be read as JSON: it is not UTF-8, is nested too deeply, or has a number of thousands of digits; {FORM}"
        return error_response(error.status_code, unread if error.status_code == 400 else error.detail, error.headers)

    direct = {"/predict": (TypeAdapter[Any](Asked), predict), "/explain": (TypeAdapter[Any](OneText), explain)}

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what is valid without the layers of FastAPI, which take a fifth of the time: it describes, and refuses the rest."""
        asked: Any = None
        if scope["path"] in direct and scope["method"] == "POST" and is_json(Headers(scope=scope).get("content-type", "")):
            adapter, endpoint = direct[scope["path"]]
            with suppress(ValueError, RecursionError):
                asked = adapter.validate_python(json.loads((await receive())["body"]))
        response: ASGIApp = app if asked is None else await endpoint(asked)
        await response(scope, receive, send)

    return answer


@dataclass(eq=False)
class _Queued:
    """A request in a queue: its steps, the texts whose probabilities it waits for, and in the end its answer."""

    unit: Unit
    start: Callable[[Sequence[EncodedText]], Steps]  # gives the steps for the texts, encoded
    given: Sequence[str]  # texts to predict
    left: int  # texts that are not scored yet
    answer: asyncio.Future[str]
    steps: Steps = field(init=False)
    texts: Sequence[EncodedText] = ()
    by_length: Int64s = field(init=False)  # rows of the texts, the shortest first
    costs: Int64s = field(init=False)  # multiplications for none of these, for the first, for the first two …
    probabilities: Any = None  # (N, C); None before the first step
    finish: Callable[[], None] | None = None  # gives the answer or the error, once it is there

    def go_on(self, classifier: Classifier) -> None:
        """Run the next step, to the next texts or to the answer."""
        try:
            self.texts = self.steps.send(self.probabilities)
        except StopIteration as end:
            self.finish = partial(self.answer.set_result, end.value)
        except Exception as error:
            self.fail(error)
        else:
            lengths = np.array([text.input_length for text in self.texts], np.int64)
            self.left, self.by_length = len(lengths), lengths.argsort(kind="stable")
            self.costs = np.append(0, multiplications(classifier.checkpoint.config.model, lengths[self.by_length]).cumsum())
            self.probabilities = np.zeros((len(lengths), len(classifier.classes)), np.float32)

    def fail(self, error: Exception) -> None:
        """End with an error."""
        self.finish = partial(self.answer.set_exception, error)

    def refuse_if_slow(self, seconds: float, most_seconds: float) -> None:
        """Refuse the request if its texts take longer than an answer may; half of that time is for others beside it."""
        if seconds > most_seconds:
            share = most_seconds / seconds / 2
            fits = int(len(self.texts) * (share if self.unit == "texts" else share**0.5))  # each word is read once for each other one
            message = f"{len(self.texts):,} {self.unit} would take longer than an answer may, {most_seconds:g} seconds"
            self.fail(MhaError(message, f"send at most {fits:,} {self.unit} like these"))


class Batches:
    """Computes requests together in one thread, in rounds of about ``ROUND`` multiplications, or of one text.

    Rounds of predictions, with small requests first, and rounds of the oldest explanation take turns. A request whose caller is cancelled
    is dropped. A request that would take more than ``most_seconds`` at the speed of the last rounds is refused.
    """

    def __init__(self, classifiers: Mapping[Unit, Classifier], most_seconds: float) -> None:
        self._classifiers, self._most_seconds = classifiers, most_seconds
        self._most_together = most_together(len(classifiers["texts"].classes))
        self._thread = ThreadPoolExecutor(1, "mha")
        self._queues: dict[Unit, list[_Queued]] = {"texts": [], "words": []}
        self._work: asyncio.Task[None] | None = None
        self._cost = self._seconds = 0.0  # multiplications of the last rounds and their time

    async def answer(self, unit: Unit, start: Callable[[Sequence[EncodedText]], Steps], texts: Sequence[str] = ()) -> str:
        """The result of steps that predict texts, or explain the words of one; they run in the thread."""
        answer = asyncio.get_running_loop().create_future()
        self._queues[unit].append(_Queued(unit, start, texts, len(texts), answer))
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._compute())
        return await answer

    async def _compute(self) -> None:
        while any(self._queues.values()):
            for unit, queue in self._queues.items():
                queue[:] = [request for request in queue if not request.answer.done()]
                if requests := sorted(queue, key=lambda request: request.left) if unit == "texts" else queue[:1]:
                    await asyncio.get_running_loop().run_in_executor(self._thread, self._round, requests)
                for request in requests:
                    if request.finish and not request.answer.done():
                        request.finish()

    def _round(self, requests: list[_Queued]) -> None:
        new = [request for request in requests if request.probabilities is None]
        sums = accumulate((sum(map(len, request.given)) for request in new), initial=0)
        self._begin([request for request, before in zip(new, sums, strict=False) if before < MOST_CHARACTERS])
        chosen, room, most = list[tuple[_Queued, Int64s]](), ROUND, self._most_together
        for request in requests:
            if request.finish or request.probabilities is None:
                continue
            costs, start = request.costs, len(request.texts) - request.left
            affordable = int(np.searchsorted(costs, costs[start] + room, "right")) - 1
            end = min(max(affordable, start + 1), start + most, len(request.texts))
            chosen.append((request, request.by_length[start:end]))
            room -= int(costs[end] - costs[start])
            most -= end - start
            if room <= 0 or most <= 0:
                break
        begun = perf_counter()
        self._score(chosen)
        self._cost, self._seconds = DECAY * self._cost + ROUND - room, DECAY * self._seconds + perf_counter() - begun
        for request, _ in chosen:
            if not request.left:
                request.go_on(self._classifiers[request.unit])
            elif not request.finish:
                request.refuse_if_slow(float(request.costs[-1]) * self._seconds / self._cost, self._most_seconds)

    def _begin(self, new: list[_Queued]) -> None:
        """Encode the texts of requests together, which is faster, and run their first steps; the text of one request fails no other."""
        try:
            encoded = iter(self._classifiers["texts"].text_pipeline.encode_all([text for request in new for text in request.given]))
        except Exception as error:
            for request in new:
                request.fail(error) if len(new) == 1 else self._begin([request])
            return
        for request in new:
            request.steps = request.start(list(islice(encoded, len(request.given))))
            request.go_on(self._classifiers[request.unit])

    def _score(self, chosen: list[tuple[_Queued, Int64s]]) -> None:
        """Score rows of each request together; the text of one request fails no other."""
        try:
            classifier = self._classifiers[chosen[0][0].unit]  # that of a round
            probabilities_NC = classifier.probabilities([request.texts[row] for request, rows in chosen for row in rows])
        except Exception as error:
            if len(chosen) == 1:
                chosen[0][0].fail(error)
            else:
                for of_request in chosen:
                    self._score([of_request])
            return
        for request, rows in chosen:
            request.probabilities[rows], probabilities_NC = probabilities_NC[: len(rows)], probabilities_NC[len(rows) :]
            request.left -= len(rows)


def content_security_policy(page: str) -> str:
    """The policy that lets a page run its own style and script, ask its own server, and do nothing else."""
    policy = "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    for tag in ("style", "script"):
        content = page.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
        policy += f"; {tag}-src 'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
    return policy


def _json(content: str) -> Response:
    return Response(content, media_type="application/json")


def _first_fault(error: RequestValidationError) -> str:
    fault = error.errors()[0]
    if fault["type"] == "json_invalid":
        return f"the body is not JSON: {fault['ctx']['error']} at character {fault['loc'][-1]}"
    place = [part for part in fault["loc"] if part not in ("str", "dict[str,any]")]  # a text is one or the other
    if fault["type"] == "model_attributes_type" or len(place) == 1:
        return "the body is not a JSON object"
    *_, name, number = ("", *place) if isinstance(place[-1], int) else ("", *place, None)
    return f"{printable(str(name))}{'' if number is None else f'[{number}]'}: {fault['msg']}"
