"""`mha serve`."""

import logging
import os
import signal
import sys
from typing import Annotated

from typer import Option

from mha_cli.cli.inputs import load_checkpoint
from mha_cli.cli.options import CheckpointOption
from mha_cli.errors import need, printable
from mha_cli.system.processor import prepare_to_compute


def serve(
    checkpoint: CheckpointOption = None,
    host: Annotated[str, Option(help="Address to listen on; 0.0.0.0 accepts other machines as well.")] = "127.0.0.1",
    port: Annotated[int, Option("--port", "-p", min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    waiting: Annotated[int, Option("--max-waiting", min=1, max=10_000, metavar="N", help="Maximum of waiting requests, else 429.")] = 128,
    timeout: Annotated[float, Option(min=0.1, max=3600, metavar="SECONDS", help="Time for an answer, else 503.")] = 30.0,
) -> None:
    """Serve a model over HTTP: JSON for programs, and a page that answers while you type."""
    need("mha serve", "serve", "fastapi", "httptools", "uvicorn", "uvloop")
    prepare_to_compute()

    model, _ = load_checkpoint(checkpoint)
    from mha_cli.serve.app import application
    from mha_cli.serve.server import Guarded, Limits, is_local, listening_socket, server

    limits = Limits(waiting=waiting, answer_seconds=timeout)
    with listening_socket(host, port) as listener:
        address = listener.getsockname()[0]
        shown = f"[{address}]" if ":" in address else address
        app = Guarded(application(model, timeout), limits, local_only=is_local(shown))
        logging.basicConfig(level=logging.ERROR)
        if os.environ.get("MHA_DEBUG") != "1":
            logging.root.handlers[0].setFormatter(_OneLine())
        print(f"http://{shown}:{listener.getsockname()[1]} answers with {printable(model.name, 200)}; Ctrl-C ends it", file=sys.stderr)
        if not is_local(shown):
            print("warning: no authentication; anyone who can reach this address can use it", file=sys.stderr)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # stopping a service is no failure
        server(app, limits).run(sockets=[listener])


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """The message alone."""
        return f"error: {printable(record.getMessage(), 500)}"
