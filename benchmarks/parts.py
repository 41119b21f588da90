"""What the parts of a classifier are worth on the test split: its encoder, its linear model, its attention heads; as JSON.

    python benchmarks/parts.py runs/imdb

The encoder alone, and the scores alone, answer with the scale and the shift that the validation part gives them, as it does for both
together. Without heads, all is as it was but what the heads give, which is zero.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mha_cli.checkpoint.file import Checkpoint, read_checkpoint
from mha_cli.config.parameters import num_outputs
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.preparation.scored_texts import labelled_texts
from mha_cli.runs import checkpoint_in

Floats = npt.NDArray[np.float32]


def accuracies(checkpoint: Checkpoint, held_out: EncodedTexts, scored: EncodedTexts) -> dict[str, float]:
    """Accuracy of a classifier and of its parts, in [0, 1].

    Args:
        checkpoint: classifier to take apart.
        held_out: reviews that say how much a part counts.
        scored: reviews to answer.

    Returns:
        ``whole``, ``encoder``, ``encoder without heads`` and, where there is a linear model, ``scores``.
    """
    from mha_cli.linear.stacking import fit_stack, probabilities_of

    known, asked = outputs(checkpoint, held_out), outputs(checkpoint, scored)

    def accuracy(probabilities: Floats) -> float:
        return float((probabilities.argmax(axis=1) == scored.labels).mean())

    if not checkpoint.config.linear:
        return {"whole": accuracy(asked["encoder"])} | {name: accuracy(answers) for name, answers in asked.items()}
    of_encoder = fit_stack(logits_of(known["encoder"]), None, held_out.labels)
    of_scores = fit_stack(np.zeros_like(known["scores"]), known["scores"], held_out.labels)
    encoders = ("encoder", "encoder without heads")
    return {
        "whole": accuracy(asked["whole"]),
        **{name: accuracy(probabilities_of(of_encoder.logits(logits_of(asked[name])))) for name in encoders},
        "scores": accuracy(probabilities_of(of_scores.logits(0.0, asked["scores"]))),
    }


def logits_of(probabilities: Floats) -> Floats:
    """Logits (N, U) that have these probabilities, (N, C), as far as float32 can tell."""
    logarithms = np.log(np.maximum(probabilities, np.float32(1e-7)))
    return logarithms[:, 1:] - logarithms[:, :1] if probabilities.shape[1] == 2 else logarithms


def outputs(checkpoint: Checkpoint, reviews: EncodedTexts) -> dict[str, Floats]:
    """Probabilities of all classes, (N, C), by the encoder with its heads and without; with scores also by both, and these, (N, U)."""
    import tensorflow as tf

    from mha_cli.model.classifier import after_embedding, linear_logits_of, to_model
    from mha_cli.model.outputs import predict_outputs, predict_probabilities

    model, silenced = to_model(checkpoint), [tf.zeros(count) for count in checkpoint.config.model.heads]
    embedding, memory_estimate = model.get_layer("embedding"), checkpoint.memory_estimate
    units = num_outputs(len(checkpoint.class_names))

    def compiled(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return tf.function(function, autograph=False, input_signature=[tf.TensorSpec(model.input_shape, tf.int32)])

    def answers(with_linear: bool, heads: list[Any] | None) -> Floats:
        def forward(tokens: Any) -> Any:
            scores = linear_logits_of(model, tokens) if with_linear else tf.zeros((tf.shape(tokens)[0], units))
            return after_embedding(model, embedding(tokens), embedding.compute_mask(tokens), scores, heads)

        return predict_probabilities(compiled(forward), memory_estimate, reviews)

    found = {"encoder": answers(False, None), "encoder without heads": answers(False, silenced)}
    if checkpoint.config.linear:
        found["whole"] = answers(True, None)
        found["scores"] = predict_outputs(compiled(lambda tokens: linear_logits_of(model, tokens)), memory_estimate, reviews, units)
    return found


def main() -> None:
    """Take a trained run apart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run directory or checkpoint")
    parser.add_argument("--split", help="split that is scored; the data's test split by default")
    arguments = parser.parse_args()
    checkpoint = read_checkpoint(checkpoint_in(arguments.run))
    data = checkpoint.config.data
    held_out, scored = (labelled_texts(checkpoint, data, split).texts for split in ("validation", arguments.split))
    print(json.dumps(accuracies(checkpoint, held_out, scored)))


if __name__ == "__main__":
    main()
