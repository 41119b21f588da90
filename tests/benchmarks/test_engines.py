"""The programs of docs/engines.md, each with two workers on this machine."""

import subprocess
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import engines
import pyarrow as pa
import pytest
from pyarrow import parquet

import mha_cli as mha
from tests.cli.command import TIMEOUT, environment

pytestmark = [pytest.mark.extras, pytest.mark.process]

NEEDED = {"ray": ("ray", "pandas"), "dask": ("dask", "distributed", "pandas"), "spark": ("pyspark", "pandas")}
NUM_FILES, ROWS = 8, 500
MARKED = """

def label(frame, model, plain=label):  # adds to each label the process, which copy of the model it has, and its threads
    import os, threadpoolctl, uuid
    mark, threads = vars(model).setdefault("mark", uuid.uuid4().hex), max(each["num_threads"] for each in threadpoolctl.threadpool_info())
    return (labelled := plain(frame, model)).assign(label=[f"{each} {os.getpid()} {mark} {threads}" for each in labelled["label"]])

"""


@pytest.mark.parametrize("engine", engines.ENGINES)
def test_each_row_is_answered_once_and_a_worker_reads_the_model_once(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if any(find_spec(module) is None for module in NEEDED[engine]) or (engine == "spark" and which("java") is None):
        pytest.skip(f"needs {' and '.join(NEEDED[engine])}, and Spark needs Java")
    texts = [f"{('A superb', 'An awful')[number % 2]} film, number {number}" for number in range(NUM_FILES * ROWS)]
    (tmp_path / "reviews").mkdir()
    for number in range(NUM_FILES):
        parquet.write_table(pa.table({"text": texts[number::NUM_FILES]}), tmp_path / "reviews" / f"{number}.parquet")
    whole = engines.program(engine)
    end = whole.index("\n\n", whole.index("    return frame.assign"))
    monkeypatch.setattr(engines, "program", lambda _: whole[:end] + MARKED + whole[end:])
    command = engines.command(engine, tmp_path)
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
    answers = engines.answers_of(engine, tmp_path)
    labels = [answer.label for answer in mha.load().predict(sorted(texts))]
    assert [(text, label.split()[0]) for text, label in answers] == list(zip(sorted(texts), labels, strict=True))
    workers = {tuple(label.split()[1:]) for _, label in answers}
    assert len(workers) == len({process for process, *_ in workers}) == engines.WORKERS
    assert {threads for *_, threads in workers} == {"1"}
