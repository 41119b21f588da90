"""What the words of classes are worth: test accuracy without labels and with few of them, another draw of the labelled texts per seed.

    MHA_MINILM=encoder python benchmarks/class_words.py FOLDER

FOLDER holds NAME_train.csv and NAME_test.csv; the words are those of `classes/NAME.yaml`. Ours is the recipe `pretrained` as it stands.
Peers get each line of words as one more labelled text. Without labels, ours has the training texts, unlabelled.
"""

import csv
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import harness
import tables
from file_peers import compared, read_csv
from texts import SYSTEMS, digest, draw, score_peer, sources

from mha_cli.sources.class_words import read_class_words

RESULT, SETS = "class-words.json", ("ag", "banking77", "mr", "trec6")
OURS, WITHOUT = "mha pretrained, words", "mha pretrained"


def recipe_of_encoder(folder: Path) -> Path:
    """A copy of the recipe `pretrained` that names the encoder."""
    text = (harness.ROOT / "configs" / "pretrained.yaml").read_text(encoding="utf-8")
    recipe = folder / "recipe.yaml"
    recipe.write_text(text.replace("pretrained: FOLDER", f"pretrained: {os.environ['MHA_MINILM']}"), encoding="utf-8")
    return recipe


def score_ours(train: Path, is_labelled: bool, words: Path | None, test: Path, seed: int, folder: Path) -> dict[str, Any]:
    """Figures of the recipe, by `mha train` and `mha predict`."""
    recipe, run = recipe_of_encoder(folder), folder / "run"
    settings = f"data.{'train' if is_labelled else 'unlabelled'}={train}", f"seed={seed}"
    options = [option for setting in settings for option in ("--set", setting)] + (["--classes", str(words)] if words else [])
    trained = harness.run_command(harness.mha_command("train", "--config", str(recipe), "--output", str(run), *options))
    answered = harness.run_command(harness.mha_command("predict", "--checkpoint", str(run), "--input", str(test)))
    answers = [line.split("\t")[0] for line in answered.stdout.splitlines()]
    return compared(read_csv(test)[1], answers) | {"wall_seconds": trained.seconds}


def with_words(train: Path | None, words: Path, path: Path) -> Path:
    """A training file with the lines of words as labelled texts."""
    labelled = list(zip(*read_csv(train), strict=True)) if train else []
    lines = [(line, name) for name, given in read_class_words(words).items() for line in ([given] if isinstance(given, str) else given)]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *labelled, *lines])
    return path


def unlabelled(train: Path, path: Path) -> Path:
    """The texts of a training file, without their labels."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text",), *((text,) for text in read_csv(train)[0])])
    return path


def main() -> None:
    """Run the systems that the arguments name, set by set."""
    parser = harness.parser(__doc__)
    parser.add_argument("folder", type=Path, help="of NAME_train.csv and NAME_test.csv")
    parser.add_argument("--sets", nargs="+", metavar="NAME", default=SETS, help=f"all of {', '.join(SETS)} by default")
    parser.add_argument("--systems", nargs="+", choices=[OURS, WITHOUT, "frozen", "setfit"], default=[OURS, "frozen"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="seeds of the draws (0 to 4)")
    parser.add_argument("--per-class", type=int, nargs="+", default=[0, 2, 8, 50], metavar="N", help="labels per class (0 2 8 50)")
    arguments = parser.parse_args()
    path = arguments.results / RESULT
    for seed, size, name in ((seed, size, name) for seed in arguments.seeds for size in arguments.per_class for name in arguments.sets):
        whole, test = (arguments.folder.resolve() / f"{name}_{part}.csv" for part in ("train", "test"))
        words = Path(__file__).with_name("classes") / f"{name}.yaml"
        for system in arguments.systems:
            is_ours = system in (OURS, WITHOUT)
            title = system if is_ours else f"{SYSTEMS[system].partition(',')[0]}, words"
            settings = {"set": name, "part": f"{size} per class", "system": title, "seed": seed}
            done = [old["settings"] for old in harness.read_json(path) or []]
            if settings in done or (size == 0 and (system != OURS or seed != arguments.seeds[0])):
                continue
            made_of = digest([*sources(Path(__file__) if is_ours else system), whole, test, words])
            with tempfile.TemporaryDirectory() as scratch:
                folder, busy = Path(scratch), harness.busy_share()
                drawn = draw(whole, size, seed, folder) if size else None
                if is_ours:
                    train = drawn or unlabelled(whole, folder / "unlabelled.csv")
                    figures = score_ours(train, bool(drawn), words if system == OURS else None, test, seed, folder)
                else:
                    figures = score_peer(system, with_words(drawn, words, folder / "with-words.csv"), test, seed)
            harness.merge_records(path, [harness.record(settings, {"made_of": made_of} | figures, busy)])
            print(f"{name}, {settings['part']}, {title}, seed {seed}: {figures['accuracy']:.2%}", file=sys.stderr)
    tables.show(tables.few_labels(harness.read_json(path), "Test accuracy with the words of classes"))


if __name__ == "__main__":
    main()
