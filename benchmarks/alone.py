"""What changes where the linear model answers alone: the texts of test files, with this rule and without; prints only.

python benchmarks/alone.py FOLDER trec6 ag                       # NAME_train.csv and NAME_test.csv
python benchmarks/alone.py FOLDER ag --config recipe.yaml        # a copy of the recipe `pretrained` that names an encoder
"""

import argparse
import tempfile
import time
from pathlib import Path

import harness
import numpy as np
from file_peers import read_csv
from sklearn.metrics import f1_score

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.runs import checkpoint_in
from mha_cli.runtime.metrics import calibration_error
from mha_cli.runtime.probabilities import Scorer


def compare(name: str, run: Path, test: Path) -> None:
    """Print the figures of a run on a test file, with the rule and without."""
    checkpoint, (texts, labels) = read_checkpoint(checkpoint_in(run)), read_csv(test)
    encoded = checkpoint.text_pipeline.encode_all(texts)
    truth = np.array([checkpoint.class_names.index(label) if label in checkpoint.class_names else -1 for label in labels])
    answers, known = dict[str, np.ndarray](), truth >= 0
    for way, model in {"always": checkpoint.always_encoding, "alone": checkpoint}.items():
        score = Scorer(model)
        begun = time.perf_counter()
        probabilities = score.score_each(encoded)
        seconds = time.perf_counter() - begun
        answers[way] = probabilities.argmax(axis=1)
        share, accuracy = score.num_encoded / len(texts), (answers[way] == truth).mean()
        f1 = f1_score(truth, answers[way], average="macro")
        loss = -np.log(np.maximum(probabilities[known, truth[known]], 1e-7)).mean()
        error = calibration_error(probabilities[known], truth[known])
        figures = (
            f"accuracy {accuracy:.2%}, macro F1 {f1:.4f}, loss {loss:.4f}, calibration error {error:.4f}, {len(texts) / seconds:,.0f}/s"
        )
        print(f"{name}, {way}: read by the encoder {share:.1%}, {figures}", flush=True)
    print(f"{name}: {(answers['always'] != answers['alone']).sum()} of {len(texts):,} answers change", flush=True)


def main() -> None:
    """Train on the sets that the arguments name, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("sets", nargs="+", metavar="NAME")
    parser.add_argument("--config", default="text", help="recipe to train (text)")
    arguments = parser.parse_args()
    for name in arguments.sets:
        train, test = (arguments.folder / f"{name}_{part}.csv" for part in ("train", "test"))
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            options = ["--config", arguments.config, "--output", str(run), "--set", f"data.train={train}"]
            harness.run_command(harness.mha_command("train", *options))
            compare(name, run, test)


if __name__ == "__main__":
    main()
