"""The recipes by name, in a checkout and in the wheel, and the names of runs."""

import zipfile
from pathlib import Path

import pytest

from mha_cli.cli.inputs import new_run_name
from mha_cli.config.loading import config_from_dict, config_to_yaml, load_config
from mha_cli.config.recipes import RECIPES, find_config, recipe_names

ROOT = Path(__file__).resolve().parents[2]
IMDB = ("imdb", "imdb-encoder", "imdb-encoder-semi", "imdb-fast", "imdb-pretrained", "imdb-semi")
NAMES = ("book", "book-no-positions", *IMDB, "pretrained", "sample", "text")


pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def test_recipes_by_name() -> None:
    assert tuple(recipe_names()) == NAMES
    for name in NAMES:
        assert find_config(name).samefile(ROOT / "configs" / f"{name}.yaml")
        config = load_config(find_config(name), ["data.train=texts.csv"] if name in ("text", "pretrained") else [])
        Path("again.yaml").write_text(config_to_yaml(config))
        assert load_config("again.yaml") == config


def test_paths_and_words_that_name_a_file() -> None:
    Path("settings").touch()
    Path("imdb").touch()
    for given in ("./sample", "sample.yaml", "mine/sample", ".", "settings"):
        assert find_config(given) == Path(given)
    assert find_config("imdb") == RECIPES / "imdb.yaml"


@pytest.mark.parametrize(
    ("train", "name"),
    [
        ("complaints.csv", "complaints"),
        ("my/complaints.2024.jsonl.gz", "complaints"),
        ("~/films/", "films"),
        (".", "here"),
        ("/", "imdb"),
        (".hidden.csv", "imdb"),
    ],
)
def test_a_run_from_a_recipe_on_files_is_named_for_these(train: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir("here")
    config = config_from_dict({"data": {"source": "files", "train": train}}, "test")
    assert new_run_name(find_config("imdb"), config) == name
    assert new_run_name(Path("my/settings.yaml"), config) == "settings"
    assert new_run_name(find_config("imdb"), config_from_dict({"data": {"source": "tfds"}}, "test")) == "imdb"


def test_the_wheel_brings_them(tmp_path: Path) -> None:
    from hatchling.builders.wheel import WheelBuilder

    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        for path in (ROOT / "configs").iterdir():
            assert archive.read(f"mha_cli/configs/{path.name}") == path.read_bytes()
        names = set(archive.namelist())
    assert names > {"mha_cli/py.typed", "mha_cli/models/imdb.keras"}
    assert not any(name.startswith("configs/") for name in names)
