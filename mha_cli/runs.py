"""Run directories: naming a new one, refusing a used one, finding the last trained one."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NewType

from pydantic import TypeAdapter

from mha_cli.config.loading import config_to_dict, config_to_yaml, load_config
from mha_cli.config.settings import Config
from mha_cli.errors import MhaError, printable, reason_of, shown_path
from mha_cli.system.callbacks import EpochRecord
from mha_cli.system.whole_files import LOCK, atomic_write, is_temporary, locked

RUNS = Path("runs")
PACKAGED = Path(__file__).parent / "models" / "imdb.keras"  # the checkpoint that the package brings; see docs/model-card.md
CHECKPOINT = "checkpoint.keras"
CONFIG = "config.yaml"
METRICS = "metrics.json"
HISTORY = "history.jsonl"
STATE = Path("last") / "state.npz"
FEATURES = Path("last") / "features.f32"
ANSWERS = Path("last") / "answers.f32"
TEXTS = Path("last") / "texts.sha256"
CHECKPOINT_VARIABLE = "MHA_CHECKPOINT"

RunDirectory = NewType("RunDirectory", Path)  # a folder that this process holds for its training; see ``run_directory``


def new_run_directory(name: str) -> Path:
    """The first of ``runs/NAME``, ``runs/NAME-2``, ``runs/NAME-3`` … that does not exist."""
    return next(path for number in count(1) if not (path := RUNS / (name if number == 1 else f"{name}-{number}")).exists())


def checkpoint_in(path: Path) -> Path:
    """The checkpoint in a run directory; any other path as it is."""
    inside = path / CHECKPOINT
    return inside if os.path.isfile(inside) else path


def is_own(checkpoint: Path, config: Config) -> bool:
    """Whether ``config.yaml`` beside a checkpoint names the same data; any other checkpoint may name any file and any download."""
    beside = checkpoint.parent / CONFIG
    try:
        return os.path.isfile(beside) and load_config(beside).data == config.data
    except MhaError:
        return False


def choose_checkpoint(given: Path | None, environment: Mapping[str, str] = os.environ) -> tuple[Path, str]:
    """The checkpoint to use and the reason: the given one, ``$MHA_CHECKPOINT``, the last trained run's, or the one that mha brings."""
    if given is not None:
        return checkpoint_in(given), ""
    if environment.get(CHECKPOINT_VARIABLE):
        return checkpoint_in(Path(environment[CHECKPOINT_VARIABLE])), f"${CHECKPOINT_VARIABLE}"
    trained = [path for path in RUNS.glob(f"*/{CHECKPOINT}") if path.exists()]  # no broken link
    if trained:
        return max(trained, key=os.path.getmtime), "the last trained run"
    return PACKAGED, "the model that comes with mha"


def run_name(checkpoint: Path) -> str:
    """A short name for a checkpoint: that of its run directory, or of the file if this is not ``checkpoint.keras``."""
    return checkpoint.absolute().parent.name if checkpoint.name == CHECKPOINT else checkpoint.stem


def read_history(checkpoint: Path) -> list[EpochRecord]:
    """The epochs of a checkpoint's run; none for a checkpoint outside a run directory."""
    path = checkpoint.parent / HISTORY
    if checkpoint.name != CHECKPOINT or not path.is_file():
        return []
    try:
        return [TypeAdapter(EpochRecord).validate_json(line) for line in path.read_bytes().splitlines()]
    except (OSError, ValueError):
        name = shown_path(path)
        raise MhaError(f"{name}: no history of a training that can be read", "remove it, or put the one of this run there") from None


def refuse_used(output: Path) -> None:
    """Refuse a run directory that holds anything but a lock and unfinished files of a killed process."""
    name = shown_path(output)
    try:
        used = any(path.name != LOCK and not is_temporary(path.name) for path in output.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise MhaError(f"{name}: cannot be used: {reason_of(error)}", "choose another folder") from None
    if not used:
        return
    if (output / METRICS).is_file():
        raise MhaError(f"{name}: holds a finished run", "choose another folder, or remove this one")
    if (output / CONFIG).is_file():
        raise MhaError(f"{name}: holds an unfinished run", "add --resume on the command line to go on with it, or choose another folder")
    raise MhaError(f"{name}: is not empty", "choose another folder")


def refuse_other_run(output: Path, config: Config) -> None:
    """Refuse to resume anything but an interrupted run of this config."""
    name = shown_path(output)
    for written in (CHECKPOINT, CONFIG, METRICS, HISTORY, STATE.parent, STATE, TEXTS):
        if (output / written).is_symlink():
            raise MhaError(f"{name}: its {written} is a link", "put there what it leads to, or choose another folder")
    if not (output / CONFIG).is_file():
        raise MhaError(f"{name}: holds no run to resume", "begin it without --resume")
    if (output / METRICS).is_file():
        raise MhaError(f"{name}: its run is finished", "choose another folder for a new one")
    earlier, now = config_to_dict(load_config(output / CONFIG)), config_to_dict(config)
    found = ("text_column", "label_column", "label_columns")
    columns = {key: earlier["data"].get(key) for key in found if key in now["data"] and not now["data"][key]}
    now = {**now, "auto": earlier.get("auto", False), "data": now["data"] | columns}  # the run has decided what was open
    if config.auto:
        now = {name: value | now.get(name, {}) if isinstance(value, dict) else now.get(name, value) for name, value in earlier.items()}
    before, after = _by_full_name(earlier), _by_full_name(now)
    for key in {**after, **before}:
        if before.get(key) != after.get(key):
            values = f"{printable(key)}={printable(str(before.get(key)))}, the config {printable(str(after.get(key)))}"
            raise MhaError(f"{name}: its run has {values}", f"resume with --config {name}/{CONFIG}")


def _by_full_name(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{name}.{key}" if key else name: value
        for name, section in settings.items()
        for key, value in (section.items() if isinstance(section, dict) else [("", section)])
    }


def keep_config(output: Path, config: Config) -> None:
    """Write the config of a run into its directory."""
    with atomic_write(output / CONFIG) as file:
        file.write(config_to_yaml(config).encode())


def refuse_other_texts(output: Path, digest: bytes) -> None:
    """Refuse to resume on texts with another digest than those of the start; a new run keeps the digest."""
    path = output / TEXTS
    path.parent.mkdir(exist_ok=True)
    if path.exists() and path.read_bytes() != digest:
        raise MhaError(f"{shown_path(output)}: it began with other texts or labels", "put those back, or choose another folder")
    with atomic_write(path) as file:
        file.write(digest)


def has_state(output: Path) -> bool:
    """Whether a run directory holds anything to resume: a state, a checkpoint, or features and answers that are computed once."""
    return any((output / name).is_file() for name in (CHECKPOINT, STATE, FEATURES, ANSWERS))


@contextmanager
def run_directory(output: Path, config: Config, resume: bool = False) -> Iterator[RunDirectory]:
    """Hold a run directory for a training, against other trainings, from before the data is read until the run ends.

    A missing folder is made, and removed if it stays empty. The config is written there, unless the interrupted run in it is resumed.
    A new run that ends before anything was learnt leaves the folder as it was, so that the same command can start it again.
    """
    refuse = partial(refuse_other_run, output, config) if resume else partial(refuse_used, output)
    missing = [folder for folder in (output, *output.parents) if not os.path.isdir(folder)]
    if missing:  # nothing to lock yet, and no run
        refuse()
        try:
            output.mkdir(parents=True)
        except OSError as error:
            raise MhaError(f"{shown_path(output)}: cannot be made: {reason_of(error)}", "choose another folder") from None
    try:
        with locked(output):
            if not missing:  # under the lock, so that nobody can use the folder in between
                refuse()
            try:
                if not resume:
                    keep_config(output, config)
                yield RunDirectory(output)
            except BaseException:
                if not (resume or has_state(output)):
                    (output / CONFIG).unlink(missing_ok=True)
                    shutil.rmtree(output / STATE.parent, ignore_errors=True)
                raise
    finally:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()  # only what is empty can be removed
