"""The application on a port, behind limits of what clients may take: bytes, seconds, connections, and places among the waiting requests."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import re
import resource
import socket
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import uvicorn
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mha_cli.errors import MhaError, printable
from mha_cli.records.objects import plain_json

SAFE_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"), (b"referrer-policy", b"no-referrer")]
SPARE_DESCRIPTORS = 40  # descriptors that connections leave free: for those that are accepted before earlier ones are closed, and for files
BACKLOG = 1024  # connections that wait to be accepted
MOST_AHEAD, MOST_HEAD_BYTES = 16, 16_384  # requests that a client may send before the answers to earlier ones; bytes of a head

log = logging.getLogger(__name__)


def most_connections() -> int:
    """Connections that fit below the limit of open files (`ulimit -n`), beside the files that are open now."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(2, limit - len(os.listdir("/dev/fd")) - SPARE_DESCRIPTORS)


@dataclass(frozen=True)
class Limits:
    """Limits of all clients together, and of a request."""

    connections: int = field(default_factory=most_connections)  # beyond these, the oldest one that waits for no answer is closed
    waiting: int = 128  # whole requests without an answer, and half-sent ones beside them; at most half of the connections together
    answer_seconds: float = 30.0  # from the end of the body to the end of the answer
    body_seconds: float = 10.0  # until the body is there
    body_bytes: int = 1_000_000


class Failure(BaseModel):
    """Why there is no answer."""

    error: str


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error, as JSON."""
    return Response(plain_json({"error": message}), status, headers, media_type="application/json")


class Guarded:
    """An application behind the limits. Bodies come to it whole.

    ``local_only`` refuses every name that is not this machine's own: a page elsewhere may give itself our address (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, limits: Limits, local_only: bool = True) -> None:
        self._app, self._limits, self._local_only = app, limits, local_only
        self._waiting, self._most_waiting = 0, min(limits.waiting, limits.connections // 2)
        self._half_sent, self._most_bodies = OrderedDict[asyncio.Timeout, None](), min(2 * limits.waiting, limits.connections // 2)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        response, started = None, False

        async def send_safely(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message["headers"], *SAFE_HEADERS]
            await send(message)

        try:
            await self._answer(scope, receive, send_safely)
        except HTTPException as refused:
            response = error_response(refused.status_code, refused.detail, refused.headers)
        except MhaError as error:
            response = error_response(422, str(error))
        except Exception as error:
            what = f"{scope['method']} {scope['path']}: {type(error).__name__}: {error}"
            log.exception(f"{what}; this is a fault in mha, MHA_DEBUG=1 shows where")
            response = error_response(500, "a fault in mha; its stderr says which")
        if response is not None and not started:  # what was begun cannot be answered otherwise: its connection is closed
            await response(scope, receive, send_safely)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if self._local_only and not is_local(re.sub(r":\d*$", "", ", ".join(headers.getlist("host")))):
            raise HTTPException(421, "not a name of this machine; ask for 127.0.0.1 or localhost")
        if int(headers.get("content-length", 0)) > self._limits.body_bytes:
            await self._refuse_large(scope, receive, send)
        elif scope["method"] != "POST":
            await self._app(scope, receive, send)
        elif (body := await self._body(receive)) is None:
            return
        elif len(body) > self._limits.body_bytes:
            await self._refuse_large(scope, receive, send)
        elif self._waiting >= self._most_waiting:
            raise HTTPException(429, f"{self._waiting} requests are waiting already; try again in a second", {"Retry-After": "1"})
        else:
            self._waiting += 1
            try:
                await self._answer_in_time(body, scope, receive, send)
            finally:
                self._waiting -= 1

    async def _body(self, receive: Receive) -> bytes | None:
        """The body, to the end or beyond the limit; None from a client that has gone. The oldest half-sent one gives way to a new one."""
        body, more = bytearray(), True
        try:
            async with asyncio.timeout(self._limits.body_seconds) as deadline:
                self._half_sent[deadline] = None
                full = len(self._half_sent) + self._waiting > self._most_bodies
                if full and not (oldest := self._half_sent.popitem(last=False)[0]).expired():
                    oldest.reschedule(0.0)
                while more and len(body) <= self._limits.body_bytes:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message["body"]
                    more = message.get("more_body", False)
        except TimeoutError:
            refusal = f"the body did not arrive within {self._limits.body_seconds:g} seconds, or before {self._most_bodies} others"
            raise HTTPException(408, refusal, {"Connection": "close"}) from None
        finally:
            self._half_sent.pop(deadline, None)
        return bytes(body)

    async def _answer_in_time(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        async def receive_body() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def hang_up() -> None:
            await receive()
            deadline.reschedule(0.0)

        try:
            async with asyncio.timeout(self._limits.answer_seconds) as deadline:
                gone = asyncio.create_task(hang_up())  # for one who has hung up nothing more is computed
                try:
                    await self._app(scope, receive_body, send)
                finally:
                    gone.cancel()
        except TimeoutError:
            if not gone.done():
                refusal = f"no answer within {self._limits.answer_seconds:g} seconds; try again later, or send less"
                raise HTTPException(503, refusal, {"Retry-After": "1"}) from None

    async def _refuse_large(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer at once, then for a while drop what still comes: a client that is cut off may not read why."""
        message = f"the body has more than {self._limits.body_bytes:,} bytes; send fewer or shorter texts"

        async def send_and_drop(sent: Message) -> None:
            await send({**sent, "more_body": True} if sent["type"] == "http.response.body" else sent)

        await error_response(413, message, {"Connection": "close"})(scope, receive, send_and_drop)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.body_seconds):
                while (await receive())["type"] == "http.request":
                    pass
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@lru_cache
def is_local(host: str) -> bool:
    """Whether a host, as a URL names it (IPv6 in brackets), can only be this machine itself."""
    with suppress(ValueError):
        if host.startswith("[") and host.endswith("]"):
            return ipaddress.IPv6Address(host[1:-1]).is_loopback
        return ipaddress.IPv4Address(host).is_loopback
    return host.lower() == "localhost"


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that clients can connect to already."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except (OSError, ValueError) as error:  # an odd name is a UnicodeError
        what = f"--host {printable(host)} --port {port}: cannot listen there: {getattr(error, 'strerror', None) or 'not a name'}"
        raise MhaError(what, "give an address of this machine, such as 127.0.0.1, and a free port, or 0 for any") from None
    return listener


def server(app: ASGIApp, limits: Limits) -> uvicorn.Server:
    """A server that on SIGINT or SIGTERM finishes what has been asked, and raises the signal again."""
    connections: OrderedDict[Connection, None] = OrderedDict()
    full = False

    class Connection(HttpToolsProtocol):
        """Drops a client that does not send the head of its next request in time, does not read its answer, or sends too much ahead."""

        head_bytes = 0  # since the last head or piece of a body

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.set_write_buffer_limits(0)  # so that it is told whenever something is left unread, and when nothing is
            connections[self] = None
            self._await_head()
            if len(connections) > limits.connections:
                self._make_room()

        def connection_lost(self, exc: Exception | None) -> None:
            connections.pop(self, None)
            self._drop.cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            self.head_bytes += len(data)
            if b"pgrade" in data and (
                self.cycle is None or self.cycle.response_complete
            ):  # Java's client offers h2c; the body would be lost
                head, end, body = data.partition(b"\r\n\r\n")
                data = re.sub(rb"(?im)^upgrade:", b"x-upgrade:", head) + end + body
            super().data_received(data)
            if self.head_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response("The head of the request is too long.")

        def on_headers_complete(self) -> None:
            self.head_bytes = 0
            if len(self.pipeline) >= MOST_AHEAD:
                self.transport.abort()
            else:
                super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self.head_bytes = 0
            super().on_body(body)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._unread = self.loop.call_later(limits.answer_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            self._unread.cancel()
            super().resume_writing()

        def on_response_complete(self) -> None:
            self._drop.cancel()  # else it would keep this request for as long as a head may take
            self._await_head()
            super().on_response_complete()

        def _make_room(self) -> None:
            nonlocal full
            oldest = next(other for other in connections if other.cycle is None or other.cycle.response_started)  # at the latest, this one
            del connections[oldest]
            oldest.transport.abort()
            if not full:
                full = True
                log.error(f"{limits.connections:,} connections are open, as many as `ulimit -n` allows; idle ones are closed for new ones")

        def _await_head(self) -> None:
            if self in connections:
                connections.move_to_end(self)

            def drop() -> None:
                if self.cycle is None or self.cycle.response_complete:
                    self.transport.close()

            self._drop = self.loop.call_later(limits.body_seconds, drop)

    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        loop="uvloop",
        lifespan="off",
        backlog=BACKLOG,
        access_log=False,
        log_config=None,
        log_level="warning" if os.environ.get("MHA_DEBUG") == "1" else "critical",  # faults are told by Guarded
        proxy_headers=False,
        timeout_keep_alive=int(limits.body_seconds) + 1,  # Connection drops idle clients sooner
        server_header=False,
        timeout_graceful_shutdown=int(limits.body_seconds + limits.answer_seconds) + 1,
    )
    return uvicorn.Server(config)
