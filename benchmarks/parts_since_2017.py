"""What the parts of attention since 2017 bring to an encoder from scratch, alone: test accuracy with one change each; prints only.

    python benchmarks/parts_since_2017.py FOLDER trec6 mr imdb        # NAME_train.csv and NAME_test.csv; imdb comes from TFDS

IMDB is learnt from 10,000 reviews. All encoders have two blocks, 64 units and 4 heads, and no linear model. Accuracies are means over
seeds, with the lowest and the highest.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import fmean

import harness

BASE = (
    "linear=null", "model.num_blocks=2", "model.embed_dim=64", "model.num_heads=4", "model.feed_forward_dim=128", "model.dropout=0.3",
    "model.embedding_dropout=0.3", "model.normalization=pre", "model.activation=gelu", "training.optimizer=adamw", "training.monitor=loss",
    "training.schedule=warmup-cosine", "training.precision=float32", "text.vocabulary_size=20000", "text.truncation=head_and_tail",
)  # fmt: skip
OF_SETS = {  # settings by the set: IMDB has many long texts
    "imdb": (
        "data.source=tfds", "data.train_split=train[:40%]", "data.validation_share=0.05", "text.sequence_length=200",
        "training.epochs=3", "training.learning_rate=0.001",
    ),
    "": ("text.sequence_length=100", "training.epochs=15", "training.learning_rate=0.002"),
}  # fmt: skip
ROTARY = "model.positions=rotary"
CHANGES = {
    "learned positions": (),
    "sinusoidal positions": ("model.positions=sinusoidal",),
    "no positions": ("model.positions=none",),
    "rotary positions": (ROTARY,),
    "linear biases": ("model.positions=linear_biases",),
    "rotary, 8 neighbours in the second block": (ROTARY, "model.max_distance=8", "model.global_every=2"),
    "rotary, one head of keys and values": (ROTARY, "model.num_key_value_heads=1"),
    "rotary, normalized queries and keys": (ROTARY, "model.query_key_norm=true"),
    "rotary, RMS normalization": (ROTARY, "model.norm=rms"),
    "rotary, gated, as many weights": (ROTARY, "model.gated=true", "model.feed_forward_dim=85"),
    "all of these": (
        ROTARY, "model.max_distance=8", "model.global_every=2", "model.num_key_value_heads=1", "model.query_key_norm=true",
        "model.norm=rms", "model.gated=true", "model.feed_forward_dim=85",
    ),
}  # fmt: skip


def accuracy(folder: Path, name: str, seed: int, changes: tuple[str, ...]) -> float:
    """Accuracy on the test file, or on IMDB's test split."""
    with tempfile.TemporaryDirectory() as place:
        run, config, test = Path(place) / "run", Path(place) / "config.yaml", folder / f"{name}_test.csv"
        is_imdb = name == "imdb"
        config.write_text("" if is_imdb else f"data:\n  source: files\n  train: {folder / name}_train.csv\n")
        settings = (*BASE, *OF_SETS["imdb" if is_imdb else ""], *changes, f"seed={seed}")
        options = [part for setting in settings for part in ("--set", setting)]
        harness.run_command(harness.mha_command("train", "--config", str(config), "--output", str(run), *options))
        data = () if is_imdb else ("--data", str(test))
        return float(json.loads(harness.run_command(harness.mha_command("evaluate", str(run), *data, "--json")).stdout)["accuracy"])


def main() -> None:
    """Compare on the sets that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="+", choices=CHANGES, default=[*CHANGES])
    arguments = parser.parse_args()
    for name in arguments.sets:
        for change in arguments.only:
            found = [accuracy(arguments.folder, name, seed, CHANGES[change]) for seed in arguments.seeds]
            print(f"{name}, {change}: {fmean(found):.2%} ({min(found):.2%} to {max(found):.2%})", flush=True)


if __name__ == "__main__":
    main()
