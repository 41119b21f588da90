"""Which libraries stay away, so that help, predictions and errors about a config come at once."""

import functools
import json
import shlex
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from signal import SIGTERM
from urllib.request import Request, urlopen

import pytest

from tests.checkpoints import small_checkpoint_file
from tests.cli.command import COMMANDS, TIMEOUT, environment
from tests.cli.forks import NUMPY_ONLY, Forked, ForkServer

TENSORFLOW = {"tensorflow", "keras", "torch", "jax", "tensorflow_datasets"}
LEARNING = TENSORFLOW | {"sklearn"}
SERVING = {"fastapi", "httptools", "starlette", "uvicorn", "uvloop"}
HEAVY = LEARNING | {"scipy", "h5py", "matplotlib", "pandas", "pyarrow"}
REPORT = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=open("imported.json", "w")))
from mha_cli.__main__ import main
main()
"""


@functools.cache
def help_server() -> ForkServer:
    """A server that has imported what every command needs, which is what ``mha --help`` needs, and nothing else."""
    return ForkServer(["mha_cli.cli.app", "typer.rich_utils"], program=REPORT)


@functools.cache
def numpy_server() -> ForkServer:
    """A server that has imported NumPy, too."""
    return ForkServer(NUMPY_ONLY, program=REPORT)


def imported_by(
    cwd: Path, *args: str | Path, server: Callable[[], ForkServer] = numpy_server, env: Mapping[str, str] | None = None
) -> tuple[int, set[str]]:
    """The exit status of ``mha ARGS`` and the top-level modules that are there when it ends."""
    with Forked(server(), args, cwd, environment(env)) as process:
        process.communicate(timeout=TIMEOUT)
    return process.wait(), set(json.loads((cwd / "imported.json").read_text()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files for every command: checkpoints, labelled texts, a config with a fault and a folder that is in use."""
    for name, model in {"a.keras": {}, "gelu.keras": {"activation": "gelu"}}.items():
        small_checkpoint_file(tmp_path / name, **model)
    (tmp_path / "reviews.csv").write_text("text,label\n" + "a fine film,pos\na bad film,neg\n" * 5)
    (tmp_path / "unknown.csv").write_text("text,label\nfine,good\n")
    (tmp_path / "bad.yaml").write_text("seed: -1\n")
    for name in ("home", "used", "used/mine"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], ["nonsense"], *([command, "--help"] for command in COMMANDS)])
def test_help_needs_no_arithmetic(arguments: list[str], tmp_path: Path) -> None:
    _, modules = imported_by(tmp_path, *arguments, server=help_server)
    assert "typer" in modules
    assert not modules & (HEAVY | SERVING | {"numpy", "openvino"})


@pytest.mark.parametrize("line", ["train --set model.po", "train --config ", "export a.keras --format ", "evaluate "])
def test_completion_needs_no_arithmetic(line: str, tmp_path: Path) -> None:
    env = {"_MHA_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": f"mha {line}"}
    code, modules = imported_by(tmp_path, server=help_server, env=env)
    assert code == 0
    assert not modules & (HEAVY | {"numpy"})


@pytest.mark.parametrize(
    ("line", "needed", "unneeded"),
    [
        ("predict --json -c a.keras film", "numpy", HEAVY | SERVING | {"openvino"}),
        ("predict -c gelu.keras film", "numpy", HEAVY),
        ("explain -c a.keras 'the film' --html page.html", "numpy", HEAVY),
        ("attention -c a.keras 'the film' --html page.html", "numpy", HEAVY),
        ("attention -c a.keras 'the film' --png heads.png", "matplotlib", LEARNING),
        ("doctor a.keras", "numpy", HEAVY | SERVING),
        ("init reviews.csv", "numpy", HEAVY),
        ("data reviews.csv", "numpy", HEAVY),
        ("data unknown.csv --next 1 -c a.keras", "numpy", HEAVY),
        pytest.param(
            "data reviews.csv --label-issues 1", "sklearn", TENSORFLOW | {"h5py"}, marks=pytest.mark.process
        ),  # as slow as evaluate
        ("evaluate a.keras --data reviews.csv", "numpy", HEAVY),
        ("shuffle-test a.keras --data reviews.csv", "numpy", HEAVY),
        pytest.param("export a.keras -f onnx -o a.onnx --data reviews.csv", "onnxruntime", LEARNING, marks=pytest.mark.extras),
        pytest.param(
            "predict -c a.keras --engine openvino --workers 1 film",
            "openvino",
            HEAVY | {"onnx", "openvino_telemetry"},
            marks=pytest.mark.extras,
        ),
    ],
)
def test_a_command_imports_only_the_libraries_that_it_needs(line: str, needed: str, unneeded: set[str], folder: Path) -> None:
    if find_spec(needed) is None:
        pytest.skip(f"needs {needed}")
    code, modules = imported_by(folder, *shlex.split(line), env={"HOME": str(folder / "home")} if needed == "openvino" else {})
    assert code == 0
    assert needed in modules
    assert not modules & unneeded
    assert not [*(folder / "home").iterdir()]


@pytest.mark.extras
def test_a_service_needs_no_tensorflow(folder: Path) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    with Forked(numpy_server(), ["serve", "-c", "a.keras", "--port", "0"], folder, environment(), text=True) as process:
        url = process.stderr.readline().split()[0]
        with urlopen(Request(f"{url}/explain", b'{"text": "the film"}', {"Content-Type": "application/json"})) as answer:
            assert answer.status == 200
        process.send_signal(SIGTERM)
        process.communicate(timeout=TIMEOUT)
    modules = set(json.loads((folder / "imported.json").read_text()))
    assert modules >= SERVING
    assert not modules & HEAVY


OWN = "--config sample --set data.source=files --set data.train=unknown.csv"


@pytest.mark.parametrize(
    "line",
    [
        "train --config bad.yaml",
        "train --config sample --set model.num_heads=7",
        "train --config sample --output used --resume",
        f"train {OWN}",
        f"shuffle-test {OWN}",
        "shuffle-test --config sample --output used",
        "shuffle-test a.keras --data unknown.csv",
        "evaluate bad.yaml",
        "evaluate a.keras --data unknown.csv",
        "report a.keras --data unknown.csv",
        "report many.keras --data unknown.csv",
        "heads a.keras --data unknown.csv",
        "heads a.keras --prune 2 --output used",
        "heads a.keras --plot heads.gif",
        "explain -c a.keras --gradients ''",
        "export a.keras --format saved-model --output used",
        "export bad.yaml --format saved-model --output exported",
    ],
)
def test_errors_come_before_tensorflow(line: str, folder: Path) -> None:
    if "many.keras" in line:  # its confusion matrix would take too much memory
        small_checkpoint_file(folder / "many.keras", tuple(map(str, range(9_200))))
    code, modules = imported_by(folder, *shlex.split(line))
    assert code == 2
    assert not modules & LEARNING
