"""The book's model in torch: its own attention, bfloat16 where that is faster, batches of similar length as ours."""

import copy
import itertools
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from mha_cli.config.settings import Config
from mha_cli.corpus.batches import at_common_length, scoring_batches, training_batches
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.system.processor import available_cores
from mha_cli.system.working_memory import MemoryEstimate

TRIAL_STEPS = 8
"""Training steps for which each option is tried before the fastest is taken, after as many that do not count."""


class Options(NamedTuple):
    """The choices of a user of torch.

    Args:
        sparse: True if a step changes only the rows of the embedding that it touches, by SparseAdam: torch's RMSprop takes dense
            gradients only.
        bfloat16: True if matrices are multiplied in bfloat16, by autocast.
        common_lengths: True if batches are padded on to one of few lengths, as ours are in bfloat16.
    """

    sparse: bool
    bfloat16: bool
    common_lengths: bool = False


class Prediction(NamedTuple):
    """How a user of torch may predict.

    Args:
        bfloat16: True if matrices are multiplied in bfloat16.
        whole: True if the weights are bfloat16 themselves, and everything with them, instead of autocast.
        common_lengths: True if batches are padded on to one of few lengths.
    """

    bfloat16: bool
    whole: bool = False
    common_lengths: bool = False


PREDICTIONS = {
    "float32": [Prediction(False, False, common) for common in (False, True)],
    "bfloat16": [Prediction(True, whole, common) for whole in (False, True) for common in (False, True)],
}


class Classifier(nn.Module):
    """The book's model on ``scaled_dot_product_attention``; padding is masked in attention and pooling."""

    def __init__(self, config: Config, vocabulary_size: int, sparse: bool) -> None:
        super().__init__()
        model = config.model
        self.num_heads = model.heads[0]
        heads_dim = self.num_heads * model.head_key_dim
        self.tokens = nn.Embedding(vocabulary_size, model.embed_dim, sparse=sparse)
        self.positions = nn.Embedding(config.text.sequence_length, model.embed_dim)
        self.projections = nn.Linear(model.embed_dim, 3 * heads_dim)
        self.output = nn.Linear(heads_dim, model.embed_dim)
        self.attention_norm, self.feed_forward_norm = (nn.LayerNorm(model.embed_dim, eps=1e-3) for _ in range(2))
        self.feed_forward_in = nn.Linear(model.embed_dim, model.feed_forward_dim)
        self.feed_forward_out = nn.Linear(model.feed_forward_dim, model.embed_dim)
        self.dropout = nn.Dropout(model.dropout)
        self.classifier = nn.Linear(model.embed_dim, 1)

    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Logits (B,) of token ids (B, L)."""
        batch, length = token_ids.shape
        mask = token_ids != 0
        x = self.tokens(token_ids) + self.positions.weight[:length]
        heads = self.projections(x).view(batch, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*heads, attn_mask=mask[:, None, None, :])
        x = self.attention_norm(x + self.output(mixed.transpose(1, 2).reshape(batch, length, -1)))
        x = self.feed_forward_norm(x + self.feed_forward_out(functional.relu(self.feed_forward_in(x))))
        pooled = x.masked_fill(~mask[:, :, None], -torch.inf).amax(dim=1)
        return self.classifier(self.dropout(pooled))[:, 0]


class Torch:
    """The book's model in torch, with the fastest of its options.

    Args:
        config: sizes, batch size and learning rate.
        reviews: texts to train on and to classify.
        vocabulary_size: number of token ids.
    """

    def __init__(self, config: Config, reviews: EncodedTexts, vocabulary_size: int) -> None:
        torch.set_num_threads(available_cores())
        torch.manual_seed(config.seed)
        self.config, self.reviews, self.vocabulary_size = config, reviews, vocabulary_size
        self.rng = np.random.default_rng(config.seed)
        choices = list(itertools.starmap(Options, itertools.product((False, True), (True, False))))
        fastest = min(choices, key=self._seconds_of_steps)
        self.training_options = min((fastest, fastest._replace(common_lengths=True)), key=self._seconds_of_an_epoch)
        self._build(self.training_options)
        self.prediction = self._fastest_prediction([way for ways in PREDICTIONS.values() for way in ways])

    def train(self) -> None:
        """Train on every review once."""
        for rows in self._batches():
            self._step(rows)

    def predict(self) -> None:
        """Classify every review."""
        self._probabilities(self.prediction)

    def about(self) -> dict[str, Any]:
        """Weights and the options that were fastest."""
        return {
            "weights": sum(weight.numel() for weight in self.model.parameters()),
            "training_options": self.training_options._asdict(),
            "prediction": self.prediction._asdict(),
        }

    def _build(self, options: Options) -> None:
        self.options = options
        self.model = Classifier(self.config, self.vocabulary_size, options.sparse)
        rate, weights = self.config.training.learning_rate, dict(self.model.named_parameters())
        self.optimizers: list[torch.optim.Optimizer] = []
        if options.sparse:
            self.optimizers.append(torch.optim.SparseAdam([weights.pop("tokens.weight")], lr=rate))
        self.optimizers.append(torch.optim.RMSprop(weights.values(), lr=rate, alpha=0.9, eps=1e-7))  # Keras's coefficients

    def _batches(self) -> list[Any]:
        return training_batches(self.reviews.lengths, self.rng, self.config.training.batch_size)

    def _step(self, rows: Any) -> None:
        self.model.train()
        labels = torch.from_numpy(self.reviews.labels[rows]).float()
        token_ids = self.reviews.padded(rows)
        if self.options.common_lengths:
            token_ids = at_common_length(token_ids, self.config.text.sequence_length)
        with _autocast(self.options.bfloat16):
            logits = self.model(torch.from_numpy(token_ids))
        loss = functional.binary_cross_entropy_with_logits(logits.float(), labels)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()
        loss.item()  # our loop reads the loss of every step too

    def _probabilities(self, way: Prediction) -> Any:
        model = copy.deepcopy(self.model).to(torch.bfloat16) if way.whole else self.model
        model.eval()
        probabilities = np.zeros(len(self.reviews), dtype=np.float32)
        with torch.inference_mode(), _autocast(way.bfloat16 and not way.whole):
            for rows in scoring_batches(self.reviews.lengths, MemoryEstimate(self.config.model, 2)):
                token_ids = self.reviews.padded(rows)
                if way.common_lengths:
                    token_ids = at_common_length(token_ids, self.config.text.sequence_length)
                logits = model(torch.from_numpy(token_ids))
                probabilities[rows] = torch.sigmoid(logits.float()).numpy()
        return probabilities

    def _fastest_prediction(self, ways: list[Prediction]) -> Prediction:
        """The fastest of some ways, each in its second round: in the first, machine code is generated."""
        for way in ways:
            self._probabilities(way)
        return min(ways, key=lambda way: _seconds(lambda: self._probabilities(way)))

    def _seconds_of_steps(self, options: Options) -> float:
        """Seconds of a few training steps with given options, on batches that are the same for all."""
        self._build(options)
        batches = training_batches(self.reviews.lengths, np.random.default_rng(0), self.config.training.batch_size)[:TRIAL_STEPS]

        def steps() -> None:
            for rows in batches:
                self._step(rows)

        steps()
        return _seconds(steps)

    def _seconds_of_an_epoch(self, options: Options) -> float:
        """Seconds of the second epoch with given options: in the first, machine code is generated for sizes that come again later."""
        self._build(options)
        self.train()
        return _seconds(self.train)


class TorchPredicting(Torch):
    """The same model that only classifies, in one precision, with the fastest options for it.

    Args:
        config: sizes.
        reviews: texts to classify.
        vocabulary_size: number of token ids.
        precision: ``float32`` or ``bfloat16``.
    """

    def __init__(self, config: Config, reviews: EncodedTexts, vocabulary_size: int, precision: str) -> None:
        torch.set_num_threads(available_cores())
        torch.manual_seed(config.seed)
        self.config, self.reviews, self.vocabulary_size = config, reviews, vocabulary_size
        self.training_options = Options(sparse=False, bfloat16=False)
        self._build(self.training_options)
        self.prediction = self._fastest_prediction(PREDICTIONS[precision])


def _autocast(bfloat16: bool) -> AbstractContextManager[None]:
    return torch.autocast("cpu", torch.bfloat16, enabled=bfloat16)


def _seconds(function: Callable[[], Any]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started
