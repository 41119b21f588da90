"""Typer's commands, but imported when they are used, with help pages to paste from; an empty value is refused."""

import functools
import re
import tomllib
from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any

from typer import Typer
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.main import get_command

from mha_cli.errors import MhaError

COMMANDS = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
MAY_BE_EMPTY = {"text", "texts", "fields"}  # parameters whose value may be empty: a text without words, a column without a name


class _HelpPage:
    """Part of a command: a help page to be read and pasted from."""

    epilog: str | None

    def get_params(self, ctx: Any) -> list[Any]:
        """All options and arguments, without the types that Typer would show: ``<bool>`` behind a flag, ``<list[str]>``."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if isinstance(parameter, TyperArgument):
                setattr(parameter, "display_type_rich", lambda ctx: "")  # noqa: B010 (it is a method)
            elif getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help page, with its examples unchanged: Typer would break and pad their lines."""
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
            values, extra, given = self.make_parser(ctx).parse_args(list(args))
        except Exception as error:
            error.ctx = ctx  # type: ignore[attr-defined]  # which not every usage error has
            raise
        for parameter in self.params:
            value = values.get(parameter.name)
            may_repeat = parameter.param_type_name != "option" or parameter.multiple or getattr(parameter, "is_flag", False)
            if given.count(parameter) > 1 and not may_repeat:
                raise MhaError(f"{parameter.opts[0]} is given {given.count(parameter)} times", "give it once")
            if parameter.name not in MAY_BE_EMPTY and (value == "" or (isinstance(value, list) and "" in value)):
                name = parameter.opts[0] if parameter.param_type_name == "option" else f"argument '{parameter.name}'"
                raise MhaError(f"{name} is empty", f"see `{ctx.command_path} --help`")
        if extra and any(parameter.name == "config" for parameter in self.params):
            from mha_cli.cli.inputs import refuse_texts_as_config

            refuse_texts_as_config(extra[0])
        return super().parse_args(ctx, args)


class Group(_HelpPage, TyperGroup):
    """``mha`` itself: it lists commands by name and first line, and imports the one that is used."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=command["help"].partition("\n")[0]) for name, command in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the arguments name, whole."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load_command(str(name)), rest


@functools.cache
def load_command(name: str) -> Any:
    """A whole command, from the module that is called like it."""
    name_in_python = name.replace("-", "_")
    callback = _with_single_options(getattr(import_module(f"mha_cli.cli.{name_in_python}"), name_in_python))
    examples = re.sub(r"\n(?! )", "\n\n", COMMANDS[name]["examples"])  # one per line; indented lines continue it
    app = Typer(add_completion=False, rich_markup_mode="rich")
    app.command(name, cls=Command, help=COMMANDS[name]["help"], epilog=f"[bold]Examples[/bold]\n\n{examples}")(callback)
    return get_command(app)


def _with_single_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with an option for each field of its dataclass parameters, as Typer needs it."""
    parameters, groups = list[Parameter](), dict[str, Any]()
    for parameter in signature(command, eval_str=True).parameters.values():
        kind = parameter.annotation
        if hasattr(kind, "__dataclass_fields__"):
            groups[parameter.name] = kind
            parameters += signature(kind, eval_str=True).parameters.values()
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def call(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field: values.pop(field) for field in group.__dataclass_fields__})
        command(**values)

    call.__signature__ = Signature([parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters])  # type: ignore[attr-defined]
    return call
