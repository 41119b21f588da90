"""Which libraries stay away, so that help, predictions and errors about a config come at once."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from signal import SIGTERM
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import pytest

from tests.checkpoints import small_checkpoint_file
from tests.cli.command import COMMANDS, CONFIGS, TIMEOUT, environment
from tests.cli.forks import NUMPY_ONLY, Forked, ForkServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

LEARNING = {"tensorflow", "keras", "torch", "jax", "sklearn", "tensorflow_datasets"}
SERVING = {"fastapi", "starlette", "uvicorn"}
NUMBERS = {"numpy", "scipy", "h5py", "matplotlib", "pandas"}
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


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], ["nonsense"], *([command, "--help"] for command in COMMANDS)])
def test_help_needs_no_arithmetic(arguments: list[str], tmp_path: Path) -> None:
    _, modules = imported_by(tmp_path, *arguments, server=help_server)
    assert "typer" in modules
    assert not modules & (LEARNING | NUMBERS | SERVING | {"openvino"})


@pytest.mark.parametrize("line", ["train --set model.po", "train --config ", "export a.keras --format ", "evaluate "])
def test_completion_needs_no_arithmetic(line: str, tmp_path: Path) -> None:
    env = {"_MHA_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": f"mha {line}"}
    code, modules = imported_by(tmp_path, server=help_server, env=env)
    assert code == 0
    assert not modules & (LEARNING | NUMBERS)


@pytest.mark.parametrize("model", [{}, {"normalization": "pre", "positions": "sinusoidal"}])
def test_predict_needs_numpy_only(model: dict[str, str], tmp_path: Path) -> None:
    checkpoint = small_checkpoint_file(tmp_path / "a.keras", **model)
    code, modules = imported_by(tmp_path, "predict", "--json", "-c", checkpoint, "the film")
    assert code == 0
    assert "numpy" in modules
    assert not modules & (LEARNING | SERVING | {"scipy", "h5py", "matplotlib", "pandas", "openvino"})


@pytest.mark.extras
def test_openvino_comes_without_what_tells_its_makers(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    checkpoint = small_checkpoint_file(tmp_path / "a.keras")
    (tmp_path / "home").mkdir()
    arguments = ["predict", "-c", checkpoint, "--engine", "openvino", "--workers", "1", "the film"]
    code, modules = imported_by(tmp_path, *arguments, env={"HOME": str(tmp_path / "home")})
    assert code == 0
    assert "openvino" in modules
    assert not modules & (LEARNING | {"openvino_telemetry", "onnx", "scipy", "h5py", "matplotlib", "pandas"})
    assert not list((tmp_path / "home").iterdir())


@pytest.mark.extras
def test_a_service_needs_no_tensorflow(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    checkpoint = small_checkpoint_file(tmp_path / "a.keras")
    with Forked(numpy_server(), ["serve", "-c", checkpoint, "--port", "0"], tmp_path, environment(), text=True) as process:
        assert process.stderr is not None
        url = process.stderr.readline().split()[0]
        with urlopen(Request(f"{url}/explain", b'{"text": "the film"}', {"Content-Type": "application/json"})) as answer:
            assert answer.status == 200
        process.send_signal(SIGTERM)
        process.communicate(timeout=TIMEOUT)
    modules = set(json.loads((tmp_path / "imported.json").read_text()))
    assert modules >= SERVING
    assert not modules & (LEARNING | {"scipy", "h5py", "matplotlib", "pandas"})


def test_a_diagnosis_needs_numpy_only(tmp_path: Path) -> None:
    code, modules = imported_by(tmp_path, "doctor", small_checkpoint_file(tmp_path / "a.keras"))
    assert code == 0
    assert "numpy" in modules
    assert not modules & (LEARNING | {"scipy", "h5py", "matplotlib", "pandas"})


def test_looking_at_data_needs_numpy_only(tmp_path: Path) -> None:
    (tmp_path / "reviews.csv").write_text("text,label\n" + "fine,pos\nbad,neg\n" * 2)
    for command in ("init", "data"):
        code, modules = imported_by(tmp_path, command, "reviews.csv")
        assert code == 0
        assert not modules & (LEARNING | {"scipy", "h5py", "matplotlib", "pandas", "pyarrow"})


def test_suspects_need_no_tensorflow(tmp_path: Path) -> None:
    (tmp_path / "reviews.csv").write_text("text,label\n" + "fine,pos\nbad,neg\n" * 5)
    code, modules = imported_by(tmp_path, "data", "reviews.csv", "--label-issues", "1")
    assert code == 0
    assert "sklearn" in modules
    assert not modules & {"tensorflow", "keras", "h5py", "matplotlib"}


@pytest.mark.process
@pytest.mark.parametrize("module", ["report.contents", "analysis.inside.pruning"])
def test_tensorflow_starts_quietly(module: str) -> None:
    as_it_comes = environment()
    del as_it_comes["TF_CPP_MIN_LOG_LEVEL"]
    result = subprocess.run([sys.executable, "-c", f"import mha_cli.{module}"], capture_output=True, check=False, env=as_it_comes)
    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.parametrize("line", ["evaluate a.keras", "compare a.keras b.keras", "shuffle-test a.keras"])
def test_scoring_needs_no_tensorflow(line: str, tmp_path: Path) -> None:
    for name in ("a.keras", "b.keras"):
        small_checkpoint_file(tmp_path / name)
    (tmp_path / "reviews.csv").write_text("text,label\nthe film was superb,pos\na dull film,neg\n")
    code, modules = imported_by(tmp_path, *line.split(), "--data", "reviews.csv")
    assert code == 0
    assert not modules & {"tensorflow", "keras", "h5py"}


def test_predict_needs_scipy_for_gelu(tmp_path: Path) -> None:
    checkpoint = small_checkpoint_file(tmp_path / "a.keras", activation="gelu")
    code, modules = imported_by(tmp_path, "predict", "-c", checkpoint, "the film")
    assert code == 0
    assert not modules & LEARNING


@pytest.mark.parametrize("command", ["attention", "explain"])
def test_looking_inside_needs_numpy_only(command: str, tmp_path: Path) -> None:
    checkpoint = small_checkpoint_file(tmp_path / "a.keras")
    code, modules = imported_by(tmp_path, command, "-c", checkpoint, "the film was superb", "--html", "page.html")
    assert code == 0
    assert (tmp_path / "page.html").exists()
    assert not modules & (LEARNING | {"scipy", "matplotlib", "pandas"})


def test_a_picture_of_attention_needs_matplotlib_but_no_tensorflow(tmp_path: Path) -> None:
    checkpoint = small_checkpoint_file(tmp_path / "a.keras")
    code, modules = imported_by(tmp_path, "attention", "-c", checkpoint, "the film was superb", "--png", "heads.png")
    assert code == 0
    assert "matplotlib" in modules
    assert not modules & LEARNING


@pytest.mark.extras
def test_an_onnx_file_needs_no_tensorflow(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    checkpoint = small_checkpoint_file(tmp_path / "a.keras")
    (tmp_path / "reviews.csv").write_text("text,label\nfine,pos\n")
    code, modules = imported_by(tmp_path, "export", checkpoint, "--format", "onnx", "--output", "a.onnx", "--data", "reviews.csv")
    assert code == 0
    assert not modules & LEARNING


SAMPLE = str(CONFIGS / "sample.yaml")


@pytest.mark.parametrize(
    "arguments",
    [
        ["train"],
        ["train", "--config", "nowhere.yaml"],
        ["train", "--config", "bad.yaml"],
        ["train", "--config", SAMPLE, "--set", "model.num_heads=7"],
        ["train", "--config", SAMPLE, "--set", "modle.num_heads=7"],
        ["train", "--config", SAMPLE, "--output", "used"],
        ["train", "--config", SAMPLE, "--output", "used", "--resume"],
        ["train", "--config", SAMPLE, "--resume"],
        ["tune", "--config", SAMPLE, "--search", "model.num_heads=7"],
        ["shuffle-test"],
        ["shuffle-test", "--config", "bad.yaml"],
        ["shuffle-test", "--config", SAMPLE, "--plot", "order.gif"],
        ["shuffle-test", "--config", SAMPLE, "--output", "used"],
        ["evaluate", "bad.yaml"],
        ["train", "--config", SAMPLE, "--set", "data.source=files", "--set", "data.train=reviews.csv"],
        ["evaluate", "nowhere.keras"],
        ["evaluate", "good.keras", "--data", "reviews.csv"],
        ["shuffle-test", "good.keras", "--data", "reviews.csv"],
        ["shuffle-test", "--config", SAMPLE, "--set", "data.source=files", "--set", "data.train=reviews.csv"],
        ["heads", "good.keras", "--data", "reviews.csv"],
        ["report", "nowhere.keras"],
        ["report", "good.keras"],
        ["report", "good.keras", "--data", "reviews.csv"],
        ["report", "good.keras", "--output", "nowhere/page.html", "--data", "reviews.csv"],
        ["report", "many.keras", "--data", "numbers.csv"],
        ["predict", "-c", "bad.yaml", "the film"],
        ["attention", "-c", "good.keras", ""],
        ["attention", "-c", "good.keras", "the film", "--block", "1"],
        ["attention", "-c", "good.keras", "the film", "--png", "heads.gif"],
        ["explain", "-c", "bad.yaml", "the film"],
        ["explain", "-c", "good.keras", "--gradients", ""],
        ["heads", "nowhere.keras"],
        ["heads", "good.keras", "--prune", "1"],
        ["heads", "good.keras", "--prune", "2", "--output", "pruned.keras"],
        ["heads", "good.keras", "--prune", "1", "--output", "used"],
        ["heads", "good.keras", "--plot", "heads.gif"],
        ["doctor", "bad.yaml"],
        ["export", "good.keras", "--format", "onx", "--output", "exported"],
        ["export", "good.keras", "--format", "saved-model", "--output", "used"],
        ["export", "bad.yaml", "--format", "saved-model", "--output", "exported"],
    ],
)
def test_errors_come_before_tensorflow(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("seed: -1\n")
    (tmp_path / "reviews.csv").write_text("text,label\nfine,good\n")
    (tmp_path / "numbers.csv").write_text("text,label\nfine,7\n")
    small_checkpoint_file(tmp_path / "good.keras")
    if "many.keras" in arguments:
        small_checkpoint_file(tmp_path / "many.keras", tuple(map(str, range(9_200))))
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine.txt").touch()
    code, modules = imported_by(tmp_path, *arguments)
    assert code == 2
    assert not modules & LEARNING


@functools.cache
def module_server() -> ForkServer:
    """A server of processes that import the module which they are given, and say what else is there then."""
    program = "import importlib, sys\nimportlib.import_module(sys.argv[1])\n"
    return ForkServer(["numpy", "pydantic"], program=program + "print(*{name.partition('.')[0] for name in sys.modules})")


@pytest.mark.parametrize(
    "module",
    [
        "mha_cli.batch.run",
        "mha_cli.checkpoint.file",
        "mha_cli.config.loading",
        "mha_cli.data.files",
        "mha_cli.data.sample",
        "mha_cli.data.sources",
        "mha_cli.config.parameters",
        "mha_cli.checkpoint.runs",
        "mha_cli.runtime.classifier",
        "mha_cli.runtime.engine",
        "mha_cli.runtime.inputs",
        "mha_cli.runtime.stream",
        "mha_cli.runtime.workers",
        "mha_cli.text.encoding",
    ],
)
def test_what_predicts_needs_neither_tensorflow_nor_the_command_line(module: str, tmp_path: Path) -> None:
    with Forked(module_server(), [module], tmp_path, environment()) as process:
        stdout, stderr = process.communicate(timeout=TIMEOUT)
    assert process.wait() == 0, stderr
    assert not set(stdout.decode().split()) & (LEARNING | {"typer", "rich"})
