"""The names that mha takes from below the documentation of other libraries, and the versions that have them."""

from importlib.metadata import version
from importlib.util import find_spec
from pkgutil import resolve_name

import pytest

NAMES = {
    ("tensorflow", "2.21.0"): ("tensorflow.python.framework.ops:gradient_registry._registry",),
    ("keras", "3.15.1"): ("keras:Model._flatten_layers",),
    ("tensorflow-datasets", "4.9.10"): ("tensorflow_datasets:features.FeatureConnector.cls_from_name",),
    ("typer", "0.29.2"): (
        "typer.core:TyperArgument", "typer.core:TyperCommand.make_parser", "typer.core:TyperGroup.resolve_command",
        "typer.main:get_command_from_info", "typer.models:CommandInfo",
    ),
    ("uvicorn", "0.54.0"): (
        "uvicorn.protocols.http.httptools_impl:HttpToolsProtocol.on_response_complete",
        "uvicorn.protocols.http.httptools_impl:HttpToolsProtocol.send_400_response",
        "uvicorn.protocols.http.httptools_impl:RequestResponseCycle",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("library", "made_for"), NAMES)
def test_names_that_no_documentation_promises_are_there(library: str, made_for: str) -> None:
    if find_spec(library.replace("-", "_")) is None:
        pytest.skip(f"{library} is not installed")
    for name in NAMES[library, made_for]:
        assert resolve_name(name), f"{name} was in {library} {made_for}; {version(library)} is installed"
