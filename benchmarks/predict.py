"""`mha predict` against plain Keras on the same checkpoint: one text from a cold process, and a stream of reviews from start to end.

    python benchmarks/predict.py                                    # trains configs/imdb-fast.yaml; table and predict.json
    python benchmarks/predict.py runs/imdb-fast/checkpoint.keras    # with a model that is there
    python benchmarks/predict.py --book --reviews 4000              # with the book's model, hardly trained; predict-book.json

The reviews are those of IMDB's test split, without their labels. Keras's process is as short as it can be: it imports Keras and the layers,
opens the file with `keras.models.load_model`, encodes the texts with our tokenizer, and predicts batches of similar length. All candidates
run in turn, each time from a new process.
"""

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import harness
import tables

from mha_cli.system.processor import bfloat16_features

TEXT = "A superb, moving film."
KERAS = """
import sys
from pathlib import Path
from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.corpus.batches import scoring_batches
from mha_cli.corpus.encoded_texts import encode_texts
from mha_cli.text.encoding import TextPipeline
import keras
import mha_cli.layers
import numpy as np

path, texts = sys.argv[1:]
model = keras.models.load_model(path)
checkpoint = read_checkpoint(Path(path))
reviews = encode_texts(Path(texts).read_text().split("\\n")[:-1], TextPipeline(checkpoint.config.text, checkpoint.vocabulary))
probabilities = np.zeros((len(reviews), model.output_shape[-1]))
for rows in scoring_batches(reviews.lengths, checkpoint.memory_estimate):
    probabilities[rows] = model.predict_on_batch(reviews.padded(rows))
np.savetxt(sys.stdout, probabilities)
"""


def engines() -> list[str]:
    """The engines of ``mha predict`` that this machine has, as options."""
    found = ["--engine numpy"]
    if find_spec("openvino"):
        found += ["--engine openvino", "--engine openvino --precision bfloat16"][: 2 if bfloat16_features() else 1]
    return found


def write_reviews(path: Path, num_texts: int) -> None:
    """Reviews of IMDB's test split, a line each."""
    from mha_cli.config.settings import TfdsData
    from mha_cli.sources.tfds import TfdsTexts

    texts = (one.text for one in TfdsTexts(TfdsData(source="tfds")).read(f"test[:{num_texts}]"))
    path.write_text("".join(" ".join(text.split()) + "\n" for text in texts))


def main() -> None:
    """Measure the checkpoint that the arguments name."""
    parser = harness.parser(__doc__)
    parser.add_argument("checkpoint", type=Path, nargs="?", help="by default configs/imdb-fast.yaml is trained first")
    parser.add_argument("--book", action="store_true", help="train configs/book.yaml, on 2,000 reviews and once: speed is what counts")
    parser.add_argument("--reviews", type=int, default=10_000, help="in the stream (10,000)")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    recipe = "book" if arguments.book else "imdb-fast"
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        if arguments.checkpoint is None:
            overrides = ["training.epochs=1", "data.train_split=train[:2000]"] if arguments.book else []
            harness.train(f"configs/{recipe}.yaml", run, overrides)
        checkpoint = str((arguments.checkpoint or run / "checkpoint.keras").resolve())
        busy = harness.busy_share()
        one, many = Path(folder) / "one.txt", Path(folder) / "many.txt"
        one.write_text(TEXT + "\n")
        # In a process of its own: what reads TFDS stays large.
        harness.run_command([sys.executable, __file__, checkpoint, "--reviews", str(arguments.reviews), "--write", str(many)])
        commands = {
            "mha --help": harness.mha_command("--help"),
            "mha predict, one text": harness.mha_command("predict", "-c", checkpoint, TEXT),
            "Keras, one text": [sys.executable, "-c", KERAS, checkpoint, str(one)],
            "mha predict, stream": harness.mha_command("predict", "-c", checkpoint, "-i", str(many)),
            "mha predict --workers 1, stream": harness.mha_command("predict", "-c", checkpoint, "--workers", "1", "-i", str(many)),
            **{
                f"mha predict {options}, stream": harness.mha_command("predict", "-c", checkpoint, *options.split(), "-i", str(many))
                for options in ("--always-encode", *(f"--always-encode {engine}" for engine in engines()))
            },
            "Keras, stream": [sys.executable, "-c", KERAS, checkpoint, str(many)],
        }
        finished = harness.in_rounds(commands, arguments.rounds)
    seconds = {name: [one.seconds for one in runs] for name, runs in finished.items()}
    model = arguments.checkpoint.stem if arguments.checkpoint else recipe
    record = harness.record({"model": model, "reviews": arguments.reviews, "rounds": arguments.rounds}, {"seconds": seconds}, busy)
    harness.write_record(arguments.results / ("predict-book.json" if arguments.book else "predict.json"), record)
    tables.show(tables.predict(record))


if __name__ == "__main__":
    if "--write" in sys.argv:
        write_reviews(Path(sys.argv[-1]), int(sys.argv[sys.argv.index("--reviews") + 1]))
    else:
        main()
