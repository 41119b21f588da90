"""Progress of work that takes long."""

import pytest

from mha_cli.system import callbacks


def test_the_time_left_is_told_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    now = 100.0
    monkeypatch.setattr(callbacks, "monotonic", lambda: now)
    for item in callbacks.counted_down("abcdefg", "doing part", callbacks.Callbacks(count=lines.append)):
        now += 5 if item == "a" else 1
    assert lines == ["doing part 2 of 7, 30 s left", "doing part 5 of 7, 6 s left"]


def test_quick_work_has_no_line() -> None:
    assert list(callbacks.counted_down(range(3), "part", callbacks.Callbacks(count=pytest.fail))) == [0, 1, 2]
