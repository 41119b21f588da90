"""Commands as Typer makes them, except that the help page is there to be read and pasted from, and that an empty value is refused."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from typer.core import TyperArgument, TyperCommand, TyperGroup

from mha_cli.errors import MhaError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAY_BE_EMPTY = {"text", "texts", "fields"}
"""Parameters whose value may be empty: a text without words, a column without a name."""


class Command(TyperCommand):
    """A command of ``mha``."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All options and arguments, ``--help`` too."""
        return _described(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help page."""
        with _examples_as_they_stand(self):
            super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments.

        Raises:
            MhaError: one of them is empty.
        """
        try:
            values, _, _ = self.make_parser(ctx).parse_args(list(args))
        except Exception as error:
            if getattr(error, "ctx", ctx) is None:  # not every usage error knows where it arose
                error.ctx = ctx  # type: ignore[attr-defined]
            raise
        for parameter in self.get_params(ctx):
            value = values.get(parameter.name)
            if parameter.name not in MAY_BE_EMPTY and (value == "" or (isinstance(value, list) and "" in value)):
                name = parameter.opts[0] if parameter.param_type_name == "option" else f"argument '{parameter.name}'"
                raise MhaError(f"{name} is empty", f"see `{ctx.command_path} --help`")
        return super().parse_args(ctx, args)


class Group(TyperGroup):
    """``mha`` itself."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All options, ``--help`` too."""
        return _described(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help page."""
        with _examples_as_they_stand(self):
            super().format_help(ctx, formatter)


def _described(parameters: list[Any]) -> list[Any]:
    """The parameters, without what Typer would show of their types: ``<bool>`` behind a flag, which takes no value, ``<list[str]>``."""
    for parameter in parameters:
        if isinstance(parameter, TyperArgument):
            setattr(parameter, "display_type_rich", lambda ctx: "")  # noqa: B010 (it is a method)
        elif getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        default = getattr(parameter, "show_default", None)
        if isinstance(default, str):
            parameter.help = f"{parameter.help} [dim]\\[default: {default}][/dim]"  # Typer would put brackets round it
            parameter.show_default = False
    return parameters


@contextmanager
def _examples_as_they_stand(command: TyperCommand | TyperGroup) -> Iterator[None]:
    """Print what stands at the end of a help page: Typer would break its lines, and fill them up with spaces behind a backslash."""
    from rich.text import Text

    from mha_cli.cli.console import stdout_console

    examples, command.epilog = command.epilog, None
    yield
    command.epilog = examples
    stdout_console().print(Text.from_markup(f"\n{examples}"), soft_wrap=True)
