"""The command line: every command, and how errors reach the user."""

import errno
import io
import os
import re
import sys
from typing import Annotated

from typer import Abort, Context, Exit, Option, Typer

from mha_cli.cli.command import Group
from mha_cli.cli.stopping import end_in_order
from mha_cli.errors import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE, MhaError, printable, reason_of, shown_path
from mha_cli.system import tensorflow_setup
from mha_cli.system.memory import out_of_memory
from mha_cli.version import __version__

app = Typer(
    name="mha",
    cls=Group,
    epilog="Start with: mha train --config sample",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

PACKAGES = {"sklearn": "scikit-learn", "ruamel": "ruamel-yaml"}  # by the module, where their names differ by more than - and _


def _print_version(context: Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:  # else a shell completes the line
        print(f"mha {__version__}")
        raise Exit


@app.callback()
def options(
    version: Annotated[bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")] = False,
) -> None:
    """Classify text with multi-head attention written from scratch."""


def main() -> None:
    """Run the command line; every error is one line on stderr, unless MHA_DEBUG=1 asks for the traceback."""
    tensorflow_setup.in_command = True
    prepare_streams()
    try:
        end_in_order()
        code = app(prog_name="mha", standalone_mode=False)
        if code == EXIT_INTERRUPTED:  # Typer's answer to Ctrl-C
            raise KeyboardInterrupt
        sys.stdout.flush()  # here, where a full disk or a reader that left can still be answered
    except MhaError as error:
        _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, Abort):
        _fail("interrupted", EXIT_INTERRUPTED)
    except Exception as error:
        if hasattr(error, "format_message"):  # a usage error of the command-line parser
            message = printable(error.format_message().replace("\n", " ").replace(": Value error, ", ": ").removesuffix("."), 1000)
            if not message:  # `mha` alone has printed its help
                sys.exit(EXIT_USAGE)
            command = getattr(getattr(error, "ctx", None), "command_path", "mha")
            _fail(f"{message}{_value_found(error)}{_dash_hint(error)}; see `{command} --help`", EXIT_USAGE)
        if isinstance(error, OSError) and error.errno in {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}:
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), sys.stdout.fileno())  # flushing at exit would fail again
            if error.errno == errno.EPIPE:  # the reader has left
                sys.exit(EXIT_FAILURE)
            _fail(f"cannot write the output: {reason_of(error)}", EXIT_FAILURE)
        if isinstance(error, OSError) and error.filename:
            _fail(f"{shown_path(error.filename)}: {reason_of(error)}; check the path", EXIT_USAGE)
        if isinstance(error, ModuleNotFoundError) and (missing := missing_package(error)):
            _fail(missing, EXIT_USAGE)
        if out_of_memory(error):
            _fail("out of memory; close other programs, or give fewer or shorter texts", EXIT_FAILURE)
        if os.environ.get("MHA_DEBUG") == "1":
            raise
        reason = printable(f"{type(error).__name__}: {error}".splitlines()[0], 500)
        _fail(f"{reason}; this is a fault in mha, MHA_DEBUG=1 shows where", EXIT_FAILURE)
    else:
        sys.exit(code)


def prepare_streams() -> None:
    """Make stdout and stderr escape characters that their encoding lacks; output to a closed one is lost, as in /dev/null."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # printing would fail, or go to the other stream
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (it stays open to the end)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _dash_hint(error: Exception) -> str:
    """A hint for a text that is taken for an option; empty where an option was meant, or the command takes no text."""
    context = getattr(error, "ctx", None)
    if context is None or getattr(error, "possibilities", True):
        return ""
    takes_texts = any(parameter.name in {"text", "texts"} for parameter in context.command.params)
    return "; put -- before a text that begins with a dash" if takes_texts else ""


def _value_found(error: Exception) -> str:
    """The value that the parser refuses, in brackets; empty where its message needs none, or has it already."""
    refusals = getattr(error.__cause__, "errors", None)  # of pydantic; older parsers name the value themselves
    if refusals is None:
        return ""
    value = repr(refusals()[0]["input"])
    return "" if value in str(error) else f" (found {printable(value, 60)})"


def _fail(message: str, code: int) -> None:
    if os.environ.get("MHA_DEBUG") == "1" and code != EXIT_INTERRUPTED:
        import traceback

        traceback.print_exc()
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


def missing_package(error: ModuleNotFoundError) -> str:
    """One line on the package that is missing and how to install it; empty if mha does not declare it."""
    from importlib.metadata import PackageNotFoundError, requires  # slow

    module = (error.name or "").partition(".")[0]
    package = PACKAGES.get(module, module.replace("_", "-"))
    try:
        declared = requires("mha") or []
    except PackageNotFoundError:  # a checkout that is not installed
        declared = []
    for requirement in declared:
        requirement = requirement.partition(";")[0]
        name = re.split(r"[^\w.-]", requirement)[0]
        if re.sub(r"[_.]", "-", name).lower() == package:
            way_out = f"pip install '{requirement}', or all of mha: pip install . in your copy of its repository"
            return f"this needs {name}, which is not installed; {way_out}"
    return ""
