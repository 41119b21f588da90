"""`mha train` where the environment is hostile or poor; tests/cli/bad_input.py has the same for commands that only read a checkpoint."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import COMMAND, TIMEOUT, TINY, environment

if TYPE_CHECKING:
    from pathlib import Path

INSTALLED = (COMMAND[0], "-P", *COMMAND[1:])
"""As the script ``mha`` runs: the current folder is none that modules come from."""

SETTINGS = ("data.num_texts=200", "model.embed_dim=8", "model.feed_forward_dim=8", "training.epochs=1")
TRAIN = ("train", "--config", str(TINY), *(part for setting in SETTINGS for part in ("--set", setting)), "--output", "run", "--json")
MODULES = ("numpy", "yaml", "json", "typer", "keras", "tensorflow", "mha_cli")
KERAS = '{"backend": "nonsense", "floatx": "float16", "image_data_format": "channels_first", "epsilon": 0.5}'


@pytest.mark.skipif(sys.platform != "linux", reason="the limits of Linux")
@pytest.mark.process
def test_everything_at_once(tmp_path: Path) -> None:
    for module in MODULES:
        (tmp_path / f"{module}.py").write_text("raise SystemExit('hostile')")
    (tmp_path / ".keras").mkdir()
    (tmp_path / ".keras" / "keras.json").write_text(KERAS)
    changes = {"TMPDIR": "/nowhere", "LANG": "C", "LC_ALL": "C", "KERAS_BACKEND": "nonsense", "KERAS_HOME": ".keras"}
    done = subprocess.run(
        ["sh", "-c", 'HOME=/proc; export HOME; ulimit -n 64; "$@"', "sh", *INSTALLED, *TRAIN],
        cwd=tmp_path,
        env=environment(changes),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"epochs_run": 1' in done.stdout
    assert "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {*(f"{module}.py" for module in MODULES), ".keras", "run"}
