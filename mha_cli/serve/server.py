"""The application on a port, from the first request to the last."""

from __future__ import annotations

import logging
import os
import socket
from collections import OrderedDict
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from mha_cli.errors import MhaError, printable
from mha_cli.serve.limits import Limits

BACKLOG = 1024
"""Connections that wait to be accepted."""
ACCEPTED_AT_ONCE = 8
"""Connections that asyncio accepts in one go, before it tells of any; they are open beyond the limit meanwhile."""

log = logging.getLogger(__name__)


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that clients can connect to already."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)[0]
        # asyncio sends at once (TCP_NODELAY) only where the protocol is named, which `socket.create_server` leaves out: 40 ms an answer.
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

    class Connection(H11Protocol):
        """Drops a client that does not send the head of its next request in time, or does not read its answer."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.set_write_buffer_limits(0)  # so that it is told whenever something is left unread, and when nothing is
            connections[self] = None
            self._await_head()
            if len(connections) > limits.connections:
                self._make_room()

        def connection_lost(self, exc: Exception | None) -> None:
            connections.pop(self, None)
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._unread = self.loop.call_later(limits.answer_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            self._unread.cancel()
            super().resume_writing()

        def on_response_complete(self) -> None:
            self._await_head()
            super().on_response_complete()

        def _make_room(self) -> None:
            """Drop the oldest connection that waits for no answer."""
            nonlocal full
            oldest = next(one for one in connections if one.cycle is None or one.cycle.response_started)  # at the latest, this one
            del connections[oldest]
            oldest.transport.abort()
            if not full:
                full = True
                log.error(f"{limits.connections:,} connections are open, as many as `ulimit -n` allows; idle ones are closed for new ones")

        def _await_head(self) -> None:
            last = self.cycle
            if self in connections:
                connections.move_to_end(self)

            def drop() -> None:
                if self.cycle is last:
                    self.transport.close()

            self.loop.call_later(limits.body_seconds, drop)

    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        loop="asyncio",
        lifespan="off",
        backlog=ACCEPTED_AT_ONCE,
        access_log=False,
        log_config=None,
        log_level="warning" if os.environ.get("MHA_DEBUG") == "1" else "critical",  # faults are told by Guarded
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=int(limits.body_seconds + limits.answer_seconds) + 1,
    )
    return _Server(config)


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start. For uvicorn, connections that wait and connections that are accepted at once are one number, its ``backlog``."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)
