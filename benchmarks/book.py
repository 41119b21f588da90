"""The book's model on IMDB reviews of real length: reviews per second of training and of inference, side by side.

    python benchmarks/book.py                        # table and book.json; 15 minutes
    python benchmarks/book.py --reviews 64 --rounds 1 --results /tmp/try     # a try-out

Candidates:

- listing: the book's own code on Keras's layers, every review padded to 600 tokens as in the book;
- listing, similar lengths: the same layers on batches of similar length, to tell padding and layers apart;
- torch: its own attention, on batches of similar length, with the fastest of its options;
- mha: ours, through `Trainer` with `configs/book.yaml` as it stands, and once more in every precision that the config offers by name;
- inference alone: torch in each precision, and the engines of `mha predict` alone, one process per core, with ready token ids:
  NumPy, and OpenVINO in each precision. `predict.py --book` measures the command itself.

Every candidate has a process of its own, and all run in turn.
"""

from __future__ import annotations

import dataclasses
import pickle
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, get_args

import harness
import numpy as np
import tables

from mha_cli.config.loading import load_config
from mha_cli.config.settings import Config, TrainingConfig

if TYPE_CHECKING:
    import numpy.typing as npt

    from mha_cli.corpus.encoded_texts import EncodedTexts
    from mha_cli.preparation.prepare import PreparedData

RECIPE = harness.ROOT / "configs" / "book.yaml"
JOBS = {"training": "train", "inference": "predict"}
OURS = "mha"
PREDICTING = {
    "torch, float32": ("torch", "float32"),
    "torch, bfloat16": ("torch", "bfloat16"),
    "mha engine alone, numpy": ("numpy", "float32"),
    "mha engine alone, openvino": ("openvino", "float32"),
    "mha engine alone, openvino bfloat16": ("openvino", "bfloat16"),
}
"""Candidates of inference alone: what computes, and in which type."""


class Candidate(Protocol):
    """The book's model with its weights, and the reviews; of those in ``PREDICTING`` nothing is trained."""

    def train(self) -> None:
        """Train on every review once."""

    def predict(self) -> None:
        """Classify every review."""

    def about(self) -> dict[str, Any]:
        """Number of weights, and what was chosen."""


class Ours:
    """``Trainer`` and its ``logits``, which `mha train` and `mha evaluate` call."""

    def __init__(self, config: Config, data: PreparedData) -> None:
        from mha_cli.training.trainer import Trainer

        self.trainer, self.data = Trainer(config, data), data
        self.epoch = 0

    def train(self) -> None:
        """Train on every review once."""
        self.epoch += 1
        for rows, tokens in self.trainer.steps(self.epoch, self.trainer.batches(self.epoch)):
            self.trainer.step(rows, tokens)

    def predict(self) -> None:
        """Classify every review."""
        self.trainer.logits(self.data.train)

    def about(self) -> dict[str, Any]:
        """Weights and the types that the layers compute in."""
        model = self.trainer.model
        return {"weights": model.count_params(), "compute_dtypes": sorted({layer.compute_dtype for layer in model.layers})}


def precisions() -> list[str]:
    """The precisions that the config offers by name, besides the one that it chooses itself."""
    return [choice for choice in get_args(TrainingConfig.model_fields["precision"].annotation) if choice != "auto"]


def candidates() -> dict[str, list[str]]:
    """Every candidate with the config overrides that it takes."""
    named = {f"{OURS}, {precision}": [f"training.precision={precision}"] for precision in precisions()}
    return {"listing": [], "listing, similar lengths": [], "torch": [], OURS: []} | named | {name: list[str]() for name in PREDICTING}


def write_sample(path: Path, num_texts: int, seed: int) -> None:
    """Prepare the recipe's data and write a random sample of its training reviews."""
    from mha_cli.preparation.prepare import prepare

    data = prepare(load_config(RECIPE))
    rows = np.random.default_rng(seed).permutation(len(data.train))[:num_texts]
    path.write_bytes(pickled_sample(data, rows))


def pickled_sample(data: PreparedData, rows: npt.NDArray[np.int64]) -> bytes:
    """The fields of ``PreparedData`` with some of its training reviews; token ids as arrays, since other processes have not its file."""

    def part(reviews: EncodedTexts, rows: npt.NDArray[np.int64]) -> EncodedTexts:
        some = reviews.subset(rows)
        return dataclasses.replace(some, tokens=np.array(some.tokens[:]))

    sample = dataclasses.replace(data, train=part(data.train, rows), validation=part(data.validation, np.arange(2)))
    return pickle.dumps({field.name: getattr(sample, field.name) for field in dataclasses.fields(sample)})


def serve_candidate(name: str, sample: Path) -> None:
    """Answer with the seconds of a job over the whole sample, or with what there is to say about the candidate."""
    config = load_config(RECIPE, candidates()[name])
    candidate = make_candidate(name, config, pickle.loads(sample.read_bytes()))

    def answer(job: str) -> Any:
        if job == "about":
            return candidate.about()
        started = time.perf_counter()
        getattr(candidate, JOBS[job])()
        return time.perf_counter() - started

    harness.serve(answer)


def make_candidate(name: str, config: Config, data: dict[str, Any]) -> Candidate:
    """The candidate of a name on the fields of a ``PreparedData``; only its own framework is imported."""
    if name in PREDICTING:
        computed_by, precision = PREDICTING[name]
        if computed_by == "torch":
            from book_torch import TorchPredicting

            return TorchPredicting(config, data["train"], len(data["vocabulary"]), precision)
        from book_engine import Predicting

        return Predicting(config, data["train"], data["vocabulary"], computed_by, precision)
    if name == "torch":
        from book_torch import Torch

        return Torch(config, data["train"], len(data["vocabulary"]))
    if name.startswith("listing"):
        from book_listing import Listing, ListingOnSimilarLengths

        listing = Listing if name == "listing" else ListingOnSimilarLengths
        return listing(config, data["train"], len(data["vocabulary"]))
    from mha_cli.preparation.prepare import PreparedData

    return Ours(config, PreparedData(**data))


def measure(num_texts: int, rounds: int, seed: int) -> dict[str, Any]:
    """Reviews per second of every candidate, round by round, of training and of inference; and what the candidates are."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        sample = Path(folder) / "sample.pickle"
        harness.run_command(harness.script_command(__file__, "--sample", str(sample), "--reviews", str(num_texts), "--seed", str(seed)))
        workers = harness.start_all(stack, __file__, {name: ("--candidate", name, "--sample", str(sample)) for name in candidates()})
        about = {name: worker.ask(job="about") for name, worker in workers.items()}
        if len(weights := {one["weights"] for one in about.values()}) > 1:
            raise RuntimeError(f"the candidates are not the same model: {weights} weights")
        figures: dict[str, Any] = {}
        for job in JOBS:
            asked = {name: worker for name, worker in workers.items() if job == "inference" or name not in PREDICTING}
            seconds = harness.ask_in_turn(asked, rounds, job=job)
            figures[job] = {name: [num_texts / one for one in own] for name, own in seconds.items()}
        return figures | {"about": about}


def main() -> None:
    """Measure all candidates, or be the process of one."""
    parser = harness.parser(__doc__)
    parser.add_argument("--reviews", type=int, default=1600, help="drawn at random (1600, as many as a training sorts by length together)")
    parser.add_argument("--rounds", type=int, default=3, help="times that every candidate runs, besides a first that does not count (3)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (0)")
    parser.add_argument("--candidate", choices=candidates(), help="be the process of one candidate, on --sample")
    parser.add_argument("--sample", type=Path, metavar="FILE", help="write the sample and nothing else")
    arguments = parser.parse_args()
    if arguments.candidate:
        serve_candidate(arguments.candidate, arguments.sample)
    elif arguments.sample:
        write_sample(arguments.sample, arguments.reviews, arguments.seed)
    else:
        busy = harness.busy_share()
        figures = measure(arguments.reviews, arguments.rounds, arguments.seed)
        settings = {"recipe": RECIPE.name, "reviews": arguments.reviews, "rounds": arguments.rounds, "seed": arguments.seed}
        record = harness.record(settings, figures, busy)
        harness.write_record(arguments.results / "book.json", record)
        tables.show(tables.book(record))


if __name__ == "__main__":
    main()
