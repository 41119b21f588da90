"""How many labels that were made wrong `mha data --label-issues` finds; prints only.

    python benchmarks/label_issues.py FOLDER/ag_train.csv    # 5 % of the labels, drawn at random, become another class, drawn too

As many issues count as labels were changed; labels that were wrong before are among them. Normalized margin: another order of the issues.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import harness
import numpy as np
from file_peers import read_csv

FLIPPED = 0.05


def flip(labels: list[str], seed: int) -> tuple[list[str], set[int]]:
    """The labels, some of them changed, and the rows of these."""
    rng, classes = np.random.default_rng(seed), sorted(set(labels))
    rows = set(rng.choice(len(labels), round(FLIPPED * len(labels)), replace=False).tolist())
    others = {label: [name for name in classes if name != label] for label in classes}
    return [str(rng.choice(others[label])) if row in rows else label for row, label in enumerate(labels)], rows


def suspected(texts: list[str], labels: list[str]) -> list[dict[str, Any]]:
    """What the command says of every text, the most doubtful first."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.jsonl"  # one text per line
        lines = (json.dumps({"text": text, "label": label}) for text, label in zip(texts, labels, strict=True))
        path.write_text("\n".join(lines), encoding="utf-8")
        done = harness.run_command(harness.mha_command("data", str(path), "--label-issues", str(len(texts)), "--json"))
    return json.loads(done.stdout)["label_issues"]


def main() -> None:
    """Flip labels and look for them, seed by seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="CSV with columns text and label")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of what is changed (0 1 2)")
    arguments = parser.parse_args()
    for path in arguments.files:
        texts, labels = read_csv(path)
        for seed in arguments.seeds:
            changed, rows = flip(labels, seed)
            listed = suspected(texts, changed)
            by_margin = sorted(listed, key=lambda one: one["probability"] - one["suggested_probability"])
            found, other = (sum(one["line"] - 1 in rows for one in order[: len(rows)]) for order in (listed, by_margin))
            told = f"{found} of the first {len(rows)} label issues were changed, {found / len(rows):.1%}"
            print(f"{path.stem}, seed {seed}: {told} (by normalized margin {other / len(rows):.1%})", flush=True)


if __name__ == "__main__":
    main()
