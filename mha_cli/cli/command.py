"""Commands as Typer makes them, except that their help page can be read and pasted from, and that an empty value is refused."""

from __future__ import annotations

from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup

from mha_cli.cli.inputs import refuse_texts_as_config
from mha_cli.errors import MhaError

MAY_BE_EMPTY = {"text", "texts", "fields"}
"""Parameters whose value may be empty: a text without words, a column without a name."""


class _HelpPage:
    """Part of a command: a help page to be read and pasted from."""

    epilog: str | None

    def get_params(self, ctx: Any) -> list[Any]:
        """All options and arguments, ``--help`` too."""
        return _described(super().get_params(ctx))  # type: ignore[misc]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help page, whose examples stand as they are: Typer would break their lines, and fill them up with spaces."""
        examples, self.epilog = self.epilog, None
        super().format_help(ctx, formatter)  # type: ignore[misc]
        self.epilog = examples
        from rich.text import Text

        from mha_cli.cli.console import stdout_console

        stdout_console().print(Text.from_markup(f"\n{examples}"), soft_wrap=True)


class Command(_HelpPage, TyperCommand):
    """A command of ``mha``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        if ctx.resilient_parsing:  # a shell completes the line, which need not be in order yet
            return super().parse_args(ctx, args)
        try:
            values, extra, _ = self.make_parser(ctx).parse_args(list(args))
        except Exception as error:
            if getattr(error, "ctx", ctx) is None:  # not every usage error knows where it arose
                error.ctx = ctx  # type: ignore[attr-defined]
            raise
        for parameter in self.get_params(ctx):
            value = values.get(parameter.name)
            if parameter.name not in MAY_BE_EMPTY and (value == "" or (isinstance(value, list) and "" in value)):
                name = parameter.opts[0] if parameter.param_type_name == "option" else f"argument '{parameter.name}'"
                raise MhaError(f"{name} is empty", f"see `{ctx.command_path} --help`")
        if extra and "config" not in values and any(parameter.name == "config" for parameter in self.params):
            refuse_texts_as_config(extra[0])
        return super().parse_args(ctx, args)


class Group(_HelpPage, TyperGroup):
    """``mha`` itself."""


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
