import hashlib
import math
import platform
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import mha_cli
from mha_cli.cli.doctor import machine
from mha_cli.report.diagnosis import diagnose
from mha_cli.runs import PACKAGED
from tests.checkpoints import rewrite, small_checkpoint, small_checkpoint_file
from tests.cli.command import Mha, tree

NAMES = ("one", "two", "[bold]\x1b[31mthree")


def test_versions_and_places(tmp_path: Path, mha: Mha) -> None:
    (tmp_path / "runs" / "one").mkdir(parents=True)
    small_checkpoint_file(tmp_path / "runs" / "one" / "checkpoint.keras")
    before = tree(tmp_path)
    result = mha("doctor", "--json", env={"TFDS_DATA_DIR": "/no/where", "MHA_CHECKPOINT": ""}).silent()
    assert tree(tmp_path) == before
    found = result.json
    assert found["versions"] == {
        "mha": mha_cli.__version__,
        "python": platform.python_version(),
        **{name: version(name) for name in ("tensorflow", "keras", "numpy")},
        "openvino": version("openvino") if find_spec("openvino") else None,
    }
    assert found["engine"] == ("openvino" if find_spec("openvino") else "numpy")
    assert found["cores"] >= 1
    assert found["places"] == [
        {"what": "TensorFlow Datasets", "path": "/no/where", "named_by": "TFDS_DATA_DIR", "exists": False, "checkpoints": None},
        {"what": "checkpoint", "path": None, "named_by": "MHA_CHECKPOINT", "exists": False, "checkpoints": None},
        {"what": "trained runs", "path": f"{tmp_path}/runs", "named_by": "default", "exists": True, "checkpoints": 1},
        {"what": "model that comes with mha", "path": str(PACKAGED), "named_by": "default", "exists": True, "checkpoints": None},
    ]
    assert found["checkpoint"] is None


def test_a_checkpoint_in_order(tmp_path: Path, mha: Mha) -> None:
    path = small_checkpoint_file(tmp_path / "a.keras", NAMES)
    assert mha("doctor", "a.keras", "--json").json["checkpoint"] == {
        "path": "a.keras",
        "bytes": path.stat().st_size,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "format": 3,
        "class_names": [*NAMES],
        "vocabulary_size": 13,
        "num_weights": sum(math.prod(parameter.shape) for parameter in small_checkpoint(NAMES).parameters),
        "metrics": {"epoch": 3, "validation_accuracy": 0.75, "validation_loss": 0.5},
        "thresholds": {},
    }


def test_what_a_person_sees(tmp_path: Path, mha: Mha) -> None:
    path = small_checkpoint_file(tmp_path / "a.keras", NAMES)
    rewrite(path, thresholds={"two": 0.25, "one": 2 / 3, NAMES[2]: 1})
    result = mha("doctor", "a.keras", env={"MHA_CHECKPOINT": "gone.keras", "COLUMNS": "300"}).silent()
    assert "\x1b" not in result.stdout
    for words in (
        "Installation",
        f"tensorflow │ {version('tensorflow')}",
        "bfloat16",
        "memory limit",
        "gone.keras ($MHA_CHECKPOINT, does not exist)",
        "/runs (does not exist)",
        "Checkpoint, in order",
        hashlib.sha256(path.read_bytes()).hexdigest(),
        r"3: one, two, [bold]\x1b[31mthree",
        "13 ids",
        "validation accuracy │ 0.75",
        r"two 0.2500, one 0.6667, [bold]\x1b[31mthree none",
    ):
        assert words in result.stdout, words


def test_names_of_gpus(tmp_path: Path) -> None:
    for number in range(2):
        folder = tmp_path / f"proc/driver/nvidia/gpus/0000:0{number}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text("Model: \t\t NVIDIA H200\nIRQ:   \t\t 42\n")
    found = diagnose(root=tmp_path)
    assert found["gpus"] == ["NVIDIA H200", "NVIDIA H200"]
    assert dict(machine(found))["GPU"].startswith("NVIDIA H200, NVIDIA H200; for training")
    assert dict(machine(found | {"gpus": []}))["GPU"] == "no"
