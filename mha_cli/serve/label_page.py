"""The page of `mha label`: texts, one at a time, for the person who has started it and for nobody else."""

import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from secrets import compare_digest, token_urlsafe
from threading import Thread
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException

from mha_cli.errors import MhaError
from mha_cli.labelling.session import Session, Shown, are_typed, class_keys, key_meanings
from mha_cli.pages.inspection import label_page
from mha_cli.records.objects import plain_json
from mha_cli.serve.app import content_security_policy
from mha_cli.serve.server import Guarded, Limits, error_response, listening_socket, server

SECRET_BYTES = 32
Row = Annotated[int, Body(embed=True)]  # number of a text


class Access:
    """Who may ask: a page that knows the secret, or that brings the ticket, which it changes for the secret and which opens nothing twice.

    The ticket is for the command line that starts a browser: other users of this machine can read it.
    """

    def __init__(self) -> None:
        self.secret, self.ticket = token_urlsafe(SECRET_BYTES), token_urlsafe(SECRET_BYTES)

    async def check(self, request: Request) -> None:
        """Refuse whoever lacks the secret, and pages from elsewhere, which a browser names as the origin."""
        if request.headers.get("origin", own := f"http://{request.headers['host']}") != own:
            raise HTTPException(403, "only the page of mha label may ask this")
        brought = request.headers.get("authorization", "").encode()
        if request.url.path == "/enter" and self.ticket and compare_digest(brought, f"Bearer {self.ticket}".encode()):
            self.ticket = ""
        elif not compare_digest(brought, f"Bearer {self.secret}".encode()):
            raise HTTPException(
                403, "the address lacks its secret, or is of an earlier start; open the whole address that mha label prints"
            )


def label_application(session: Session, access: Access, next_command: str = "") -> FastAPI:
    """The application behind the page. Every request but that for the page itself, which holds no data, needs the secret.

    Args:
        next_command: line to go on with, shown when all texts have an answer.
    """
    page = label_page()
    policy = content_security_policy(page)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    guarded = APIRouter(dependencies=[Depends(access.check)])

    def state(shown: Shown, **more: Any) -> Response:
        content = plain_json({"shown": asdict(shown), "progress": asdict(session.progress()), **more})
        # A browser may send a press on a connection that the server has just closed for being idle; with one for each, no press is lost.
        return Response(content, media_type="application/json", headers={"Connection": "close"})

    @app.get("/", response_class=HTMLResponse)
    async def root() -> HTMLResponse:
        return HTMLResponse(page, headers={"Content-Security-Policy": policy})

    @guarded.post("/enter")
    def enter() -> Response:
        classes, several = session.classes, session.several
        keys, meanings = list(class_keys(classes).items()), key_meanings(classes, several)
        words = [[*session.words.get(name, ())] for name in classes]
        about: dict[str, Any] = {"classes": classes, "words": words, "several": several, "parts": session.text_columns}
        about |= {"types": are_typed(classes), "keys": keys, "meanings": meanings}
        return state(session.current(), secret=access.secret, command=next_command, **about)

    @guarded.post("/answer")
    def answer(row: Row, labels: Annotated[list[str], Body()]) -> Response:
        return state(session.answer(row, labels))

    @guarded.post("/skip")
    def skip(row: Row) -> Response:
        return state(session.skip(row))

    @guarded.post("/undo")
    def undo() -> Response:
        return state(session.undo())

    @guarded.post("/step")
    def step(by: Annotated[Literal[-1, 1], Body(embed=True)]) -> Response:
        return state(session.step(by))

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> Response:
        return error_response(error.status_code, error.detail, error.headers)

    @app.exception_handler(MhaError)
    async def failed(_: Request, error: MhaError) -> Response:
        return error_response(422, str(error))

    app.include_router(guarded)
    return app


def serve_labelling(session: Session, open_browser: bool, announce: Callable[[str], None], next_command: str = "") -> None:
    """Show a labelling in a browser, at an address of this machine alone, until Ctrl-C. ``announce`` gets the address."""
    access, limits = Access(), Limits()
    with listening_socket("127.0.0.1", 0) as listener, suppress(KeyboardInterrupt):
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/#"
        announce(address + access.secret)
        if open_browser:  # in a thread: some browsers return only when they end
            Thread(target=webbrowser.open, args=[address + access.ticket], daemon=True).start()
        server(Guarded(label_application(session, access, next_command), limits), limits).run(sockets=[listener])
