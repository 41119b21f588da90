"""The line with which a call refuses what the user can correct."""

from collections.abc import Callable

import pytest

from mha_cli.errors import EXIT_USAGE, MhaError


def error_of(call: Callable[..., object], *args: object, exit_code: int = EXIT_USAGE) -> str:
    """That line of a call with these arguments."""
    with pytest.raises(MhaError) as raised:
        call(*args)
    assert raised.value.exit_code == exit_code
    assert str(raised.value).isprintable()
    return str(raised.value)
