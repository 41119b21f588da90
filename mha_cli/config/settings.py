"""Every setting of a run: its type, its range, its unit and its meaning.

The models are frozen and refuse unknown keys. The resolved config travels inside the checkpoint.
"""

from __future__ import annotations

import codecs
import re
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from mha_cli.errors import plural


class Settings(BaseModel):
    """Base of every section: frozen, strict about types and unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class DataSettings(Settings):
    """Settings that every data source has."""

    validation_share: float = Field(0.1, gt=0, le=0.5, description="Share of the training split held out to choose the best epoch.")

    validation: Literal["random", "names"] = Field(
        "random",
        description="Choice of held-out texts: random, stratified by class, or names (texts with the same rare names stay together).",
    )


class SampleData(DataSettings):
    """Made-up film reviews from the built-in grammar; needs no network."""

    source: Literal["sample"] = Field("sample", description="The built-in made-up reviews.")
    num_texts: int = Field(6000, ge=200, le=1_000_000, description="Texts in the training split; the test split has a quarter as many.")
    seed: int = Field(0, ge=0, lt=2**32, description="Seed of the grammar.")


class TfdsData(DataSettings):
    """A text-classification set of TensorFlow Datasets."""

    source: Literal["tfds"] = Field(description="TensorFlow Datasets.")
    name: str = Field(
        "imdb_reviews", min_length=1, max_length=200, description="Name in the TFDS catalogue, with its config if it has one (glue/sst2)."
    )
    data_dir: str | None = Field(None, description="TFDS data directory; null uses $TFDS_DATA_DIR, or TFDS's own default.")
    train_split: str = Field("train", min_length=1, description="Split to train on.")
    test_split: str = Field("test", min_length=1, description="Split that `mha evaluate` scores by default.")
    unlabelled_split: str | None = Field(None, min_length=1, description="Split to learn from without labels; null for none.")
    text_key: str = Field("text", min_length=1, description="Feature that holds the text.")
    label_key: str = Field("label", min_length=1, description="Feature that holds the class.")


Column = Annotated[str | None, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
"""A column by its name, or by its number as a YAML file may have it."""

FilePath = Annotated[str, Field(min_length=1)]


def known_encoding(name: str) -> str:
    """The name of a text encoding that Python knows; a ValueError is raised for any other name."""
    try:
        found = codecs.lookup(name) if re.fullmatch(r"[\w.:-]+", name, re.ASCII) else None
    except (LookupError, ValueError):
        found = None
    if found is None or not found._is_text_encoding or found.name in _NO_FILE_ENCODINGS:
        raise ValueError("no such encoding; name one such as windows-1252, iso-8859-15, gb18030, shift_jis or utf-16")
    return name


_NO_FILE_ENCODINGS = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"}
"""Text encodings of Python in which no file is written."""


class FilesData(DataSettings):
    """Labelled texts in tables, JSON lines, fastText's lines or Parquet, or in folders with one sub-folder per class."""

    source: Literal["files"] = Field(description="Your own files or folders.")
    train: FilePath | list[FilePath] = Field(
        min_length=1,
        description="Files or folders to train on; `*` matches anything in a name, and relative paths start at the current folder.",
    )
    test: FilePath | list[FilePath] | None = Field(
        None, description="Files or folders that `mha evaluate` scores by default; null uses test_share, if it is set."
    )
    test_share: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Share of `train` held out as test part, stratified by class and the same for every seed; null for none.",
    )
    unlabelled: str | None = Field(
        None, min_length=1, description="Text file to learn from without labels, one text per line; null for none."
    )
    text_column: Column = Field(
        None,
        min_length=1,
        description="Column of the text: its name, its number from 1 in a table without header, or a nested key with dots; null finds it.",
    )
    label_column: Column = Field(None, min_length=1, description="Column of the class, named in the same ways; null finds it.")
    encoding: str | None = Field(
        None, description="Encoding of the files, such as windows-1252; null is UTF-8, or the encoding of a byte-order mark."
    )
    quoting: bool = Field(True, description="Read quotes in tables as in CSV; false reads them as ordinary characters.")

    @field_validator("encoding")
    @classmethod
    def _is_known(cls, encoding: str | None) -> str | None:
        return encoding and known_encoding(encoding)

    @model_validator(mode="after")
    def _test_data_are_named_once(self) -> Self:
        if self.test is not None and self.test_share is not None:
            raise ValueError(f"test and test_share={self.test_share} both name test data; take test_share=null, or test=null")
        return self

    @property
    def train_paths(self) -> list[str]:
        """What to train on, as a list."""
        return [self.train] if isinstance(self.train, str) else self.train

    @property
    def test_paths(self) -> list[str]:
        """What to score by default, as a list; empty for none."""
        return [self.test] if isinstance(self.test, str) else self.test or []


class MemoryData(DataSettings):
    """Texts that a Python program gave to mha_cli.train; nothing else can read them again."""

    source: Literal["memory"] = Field("memory", description="Texts of a Python program.")


MAX_BUCKETS = 2**24
"""Rows of the largest hash table: the row numbers are exact in float32, in which some runtimes of an export sort them."""

SUBWORD_LENGTHS = (3, 4, 5)
"""Characters of a subword; a word's two ends are among them."""


class TextConfig(Settings):
    """How a text becomes token ids."""

    vocabulary_size: int = Field(
        20_000,
        ge=3,
        le=10_000_000,
        description="Size of the vocabulary, with padding and the unknown word; the most frequent tokens are kept.",
    )
    sequence_length: int = Field(600, ge=1, le=100_000, description="Tokens of a text that the model reads; further tokens are cut.")
    truncation: Literal["head", "tail", "head_and_tail"] = Field(
        "head", description="Which tokens of a longer text are read: the first, the last, or half of them at either end."
    )
    lowercase: bool = Field(True, description="Turn words into lower case.")
    punctuation: bool = Field(True, description="Keep punctuation marks as tokens.")
    subword_characters: int = Field(
        0, ge=0, le=100, description="Characters of a word, with a mark at either end, from which subwords are read; 0 reads no subwords."
    )

    @model_validator(mode="after")
    def _characters_hold_a_subword(self) -> Self:
        if 0 < self.subword_characters < min(SUBWORD_LENGTHS):
            raise ValueError(
                f"subword_characters={self.subword_characters} is less than the shortest subword; take {min(SUBWORD_LENGTHS)} or more, or 0"
            )
        return self

    @property
    def token_shape(self) -> tuple[int | None, ...]:
        """Shape of a text's tokens: (L,) ids, or (L, 1 + W) ids with code points of W characters; L is None."""
        return (None, 1 + self.subword_characters) if self.subword_characters else (None,)


_WITHOUT_WORD_ORDER: dict[str, dict[str, Any]] = {
    "model": {"max_ngram": 1, "conv_kernel_size": 0},
    "linear": {"max_ngram": 1, "end_decay": 0, "context_windows": []},
}
"""The most that settings may be in a model that ignores the order of words, by section."""


def _power_of_two(buckets: int) -> int:
    if buckets & (buckets - 1):
        below = 1 << (buckets.bit_length() - 1)
        raise ValueError(f"{buckets} is not a power of two; take {below} or {2 * below}")
    return buckets


HeadCount = Annotated[int, Field(ge=1, le=256)]


class ModelConfig(Settings):
    """PositionalEmbedding → TransformerEncoder × num_blocks → GlobalMaxPooling1D → Dropout → Dense."""

    embed_dim: int = Field(64, ge=1, le=16_384, description="Width of the embedding and of every block's output.")
    positions: Literal["learned", "sinusoidal", "none"] = Field("learned", description="How a token's position is added to its embedding.")
    max_ngram: int = Field(1, ge=1, le=5, description="Longest n-gram whose hashed embedding is added to the token's; 1 for none.")
    ngram_buckets: int = Field(0, ge=0, le=MAX_BUCKETS, description="Rows of the n-gram embedding table; a power of two.")
    ngram_dropout: float = Field(0.0, ge=0, lt=1, description="Share of the units of n-gram and subword embeddings zeroed in training.")
    subword_buckets: int = Field(
        0, ge=0, le=MAX_BUCKETS, description="Rows of the subword embedding table, a power of two; 0 for no subword embeddings."
    )
    conv_kernel_size: int = Field(0, ge=0, le=99, description="Kernel size of a depthwise convolution over embeddings; odd, or 0 for none.")
    num_blocks: int = Field(1, ge=1, le=100, description="Encoder blocks.")
    num_heads: HeadCount | list[HeadCount] = Field(
        4, description="Attention heads: one number for all blocks, or a list with one number per block."
    )
    key_dim: int | None = Field(None, ge=1, le=16_384, description="Width of queries and keys per head; null is embed_dim / num_heads.")
    feed_forward_dim: int = Field(128, ge=1, le=65_536, description="Hidden width of the feed-forward layer.")
    activation: Literal["relu", "gelu"] = Field("relu", description="Function between the two projections of the feed-forward layer.")
    normalization: Literal["post", "pre"] = Field(
        "post", description="Layer normalization after each residual sum (post) or before each sub-layer (pre)."
    )
    attention_score: Literal["dot_product", "additive"] = Field(
        "dot_product", description="Attention score of a query and a key: q·k, or wᵀ tanh(q + k)."
    )
    use_scale: bool = Field(True, description="Multiply dot products by 1/√key_dim.")
    attention_implementation: Literal["auto", "fused", "per_head", "blockwise", "folded"] = Field(
        "auto",
        description="How attention is computed, always with equal results: all heads at once, per head, in blocks, or with folded kernels.",
    )
    embedding_dropout: float = Field(0.0, ge=0, lt=1, description="Share of embedding units zeroed in training.")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="Share of attention weights zeroed in training.")
    dropout: float = Field(0.5, ge=0, lt=1, description="Share of pooled features zeroed in training, before the classifier.")

    @field_validator("conv_kernel_size")
    @classmethod
    def _convolution_has_a_middle(cls, width: int) -> int:
        if width and width % 2 == 0:
            raise ValueError(f"{width} tokens have no middle; take {width - 1} or {width + 1}")
        return width

    _buckets_are_powers_of_two = field_validator("ngram_buckets", "subword_buckets")(_power_of_two)

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if isinstance(self.num_heads, list):
            if len(self.num_heads) != self.num_blocks:
                raise ValueError(f"num_heads names {plural(len(self.num_heads), 'block')}, num_blocks={self.num_blocks}; name as many")
            if self.key_dim is None:
                raise ValueError("num_heads is a list, so key_dim cannot be embed_dim / num_heads; set key_dim")
        elif self.key_dim is None and self.embed_dim % self.num_heads:
            heads = self.num_heads
            divisors = [n for n in range(1, self.embed_dim + 1) if self.embed_dim % n == 0]
            nearest = sorted(sorted(divisors, key=lambda n: abs(n - heads))[:2])
            raise ValueError(
                f"num_heads={heads} does not divide embed_dim={self.embed_dim}; "
                f"take num_heads={' or '.join(map(str, nearest))}, or set key_dim"
            )
        return self

    @model_validator(mode="after")
    def _implementation_computes_score(self) -> Self:
        if self.attention_implementation in ("blockwise", "folded") and self.attention_score == "additive":
            raise ValueError(
                f"attention_implementation={self.attention_implementation} computes dot products only; take attention_implementation=auto"
            )
        if self.attention_implementation == "folded" and self.attention_dropout:
            raise ValueError("attention_implementation=folded computes no attention_dropout; take attention_implementation=auto")
        return self

    @property
    def heads(self) -> tuple[int, ...]:
        """Attention heads of every block."""
        return tuple(self.num_heads) if isinstance(self.num_heads, list) else (self.num_heads,) * self.num_blocks

    @property
    def head_key_dim(self) -> int:
        """Width of queries and keys per head, in units."""
        return self.key_dim if self.key_dim is not None else self.embed_dim // self.heads[0]


class LinearConfig(Settings):
    """A linear model of n-grams beside the encoder; with `linear: null`, the default, there is none."""

    max_ngram: int = Field(3, ge=1, le=5, description="Longest n-gram.")
    buckets: int = Field(1 << 20, ge=1, le=MAX_BUCKETS, description="Rows of the hashed table; a power of two.")
    subwords: bool = Field(False, description="Read subwords as well.")
    end_decay: int = Field(
        0, ge=0, le=100_000, description="Tokens over which the extra weight of a text's end decays; 0 weighs all positions alike."
    )
    context_windows: list[Annotated[int, Field(ge=1, le=100_000)]] = Field(
        [], max_length=5, description="Half-widths, in tokens, of the windows of the learned context weights; [] for none."
    )
    ngram_embeddings: bool = Field(False, description="Read n-gram embeddings as well, learned from labelled and unlabelled texts.")

    _buckets_are_a_power_of_two = field_validator("buckets")(_power_of_two)


class TrainingConfig(Settings):
    """How the weights are found."""

    epochs: int = Field(5, ge=1, le=10_000, description="Passes over the training part, at most.")
    batch_size: int = Field(32, ge=1, le=65_536, description="Texts per step, over all workers and devices.")
    distribution: Literal["none", "mirrored", "multi-worker", "auto"] = Field(
        "none",
        description="Devices that share a batch: one, all GPUs of the machine, those of several workers, or the most there are (auto).",
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Type of matrix products in training; auto is bfloat16 if the processor has it and heads are at least 128 wide."
    )
    optimizer: Literal["adamw", "adam", "rmsprop"] = Field(
        "adamw", description="Update rule with Keras's default coefficients; embedding rows that a step does not use stay as they are."
    )
    learning_rate: float = Field(1e-3, gt=0, le=10, description="Highest learning rate; warmup_share and schedule lower it.")
    schedule: Literal["constant", "cosine"] = Field(
        "constant", description="Learning rate over the steps: constant, or falling to zero along half a cosine."
    )
    warmup_share: float = Field(0.0, ge=0, lt=1, description="Share of all steps over which the learning rate rises linearly from zero.")
    weight_decay: float = Field(
        0.0, ge=0, le=1, description="Decoupled weight decay of adamw; biases, layer normalization and embedding tables have none."
    )
    clip_norm: float | None = Field(
        None, gt=0, description="Largest global norm of the gradient, without embedding tables; null does not clip."
    )
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="Share of the target spread evenly over the classes.")
    class_weights: Literal["none", "balanced"] = Field(
        "none", description="Weight of a text's loss: none, or texts / (classes * texts of its class)."
    )
    finetune_epochs: int = Field(0, ge=0, le=10_000, description="Number of final epochs on labelled texts only.")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="Share of tokens replaced by the unknown token in training.")
    patience: int | None = Field(
        None, ge=1, le=10_000, description="Epochs without a better validation figure before training stops; null never stops early."
    )
    monitor: Literal["accuracy", "loss", "last"] = Field(
        "accuracy", description="Validation figure that chooses the best epoch; last always chooses the last one."
    )
    distill_linear: bool = Field(
        False,
        description="Distill the linear model into the encoder: half of a target, or all without a label, is its out-of-fold prediction.",
    )
    keep_linear: bool = Field(
        True, description="Keep the linear model in the checkpoint after distillation; false keeps the encoder alone."
    )
    refit_linear: bool = Field(False, description="Fit the linear model of the checkpoint again, with the validation part.")

    @model_validator(mode="after")
    def _patience_waits_for_a_better_epoch(self) -> Self:
        if self.patience and self.monitor == "last":
            raise ValueError(f"patience={self.patience} waits for a better epoch, and monitor=last has none; take monitor=loss")
        return self

    @model_validator(mode="after")
    def _decay_needs_adamw(self) -> Self:
        if self.weight_decay and self.optimizer != "adamw":
            raise ValueError(
                f"weight_decay={self.weight_decay} has no effect with optimizer={self.optimizer}; take optimizer=adamw or weight_decay=0"
            )
        return self


class Config(Settings):
    """One run, whole."""

    auto: bool = Field(False, description="Let the data decide the settings that are not given; see recipes.md.")
    seed: int = Field(0, ge=0, lt=2**31, description="Seed of the validation split, the initial weights, the batch order and dropout.")
    data: Annotated[SampleData | TfdsData | FilesData | MemoryData, Field(discriminator="source")] = SampleData()
    text: TextConfig = TextConfig()
    model: ModelConfig = ModelConfig()
    linear: LinearConfig | None = Field(None, description="The linear model beside the encoder; null for none.")
    training: TrainingConfig = TrainingConfig()

    @property
    def learns_from_validation(self) -> bool:
        """Whether the linear model of the checkpoint learns from the validation part."""
        return self.linear is not None and self.training.refit_linear and self.training.keep_linear

    @property
    def reads_unlabelled(self) -> bool:
        """Whether the training uses texts without labels."""
        return self.training.distill_linear or (self.linear is not None and self.linear.ngram_embeddings)

    def of_checkpoint(self) -> Self:
        """The config of the checkpoint: without the linear model if that only teaches the encoder."""
        if self.training.keep_linear:
            return self
        training = self.training.model_copy(update={"distill_linear": False, "keep_linear": True, "finetune_epochs": 0})
        text = self.text if self.model.subword_buckets else self.text.model_copy(update={"subword_characters": 0})
        return self.model_copy(update={"text": text, "linear": None, "training": training})

    def without_positions(self) -> Self:
        """The same config without anything that carries word order."""
        model, linear = self.model, self.linear
        bounded = {
            section: {name: min(getattr(settings, name), most) for name, most in _WITHOUT_WORD_ORDER[section].items()}
            for section, settings in (("model", model), ("linear", linear))
            if settings
        }
        dropout = model.ngram_dropout if model.subword_buckets else 0.0
        model = model.model_copy(update={"positions": "none", "ngram_buckets": 0, "ngram_dropout": dropout, **bounded["model"]})
        return self.model_copy(update={"model": model, "linear": linear and linear.model_copy(update=bounded["linear"])})

    @model_validator(mode="after")
    def _no_word_order_without_positions(self) -> Self:
        for section, bounds in _WITHOUT_WORD_ORDER.items():
            settings = getattr(self, section)
            for name, most in bounds.items() if settings and self.model.positions == "none" else ():
                if getattr(settings, name) > most:
                    raise ValueError(
                        f"{section}.{name}={getattr(settings, name)} carries word order and model.positions=none must not; "
                        f"take {name}={most}"
                    )
        return self

    @model_validator(mode="after")
    def _ngrams_have_a_table(self) -> Self:
        ngrams, buckets = self.model.max_ngram, self.model.ngram_buckets
        if not self.auto and (ngrams > 1) != (buckets > 0):  # with auto, the table is still to be decided
            raise ValueError(
                f"model.max_ngram={ngrams} and model.ngram_buckets={buckets} do not go together; "
                "take max_ngram=1 and ngram_buckets=0, or more of both"
            )
        return self

    @model_validator(mode="after")
    def _subwords_have_characters(self) -> Self:
        if self.auto:
            return self
        characters, buckets = self.text.subword_characters, self.model.subword_buckets
        in_linear = self.linear is not None and self.linear.subwords
        if not characters and buckets:
            raise ValueError(f"model.subword_buckets={buckets} needs text.subword_characters above 0; take 24, or subword_buckets=0")
        if not characters and in_linear:
            raise ValueError("linear.subwords=true needs text.subword_characters above 0; take 24, or subwords=false")
        if characters and not (buckets or in_linear):
            raise ValueError(
                f"text.subword_characters={characters} has no effect; set model.subword_buckets or linear.subwords, "
                "or take subword_characters=0"
            )
        return self

    @model_validator(mode="after")
    def _distillation_has_a_teacher(self) -> Self:
        if self.training.distill_linear and not self.linear:
            raise ValueError("training.distill_linear=true needs a linear model; set linear.max_ngram=3, or take distill_linear=false")
        may_distill = self.training.distill_linear or (self.auto and self.linear)
        if not (self.training.keep_linear or may_distill):
            raise ValueError(
                "training.keep_linear=false drops a linear model that teaches no encoder; take distill_linear=true, or keep_linear=true"
            )
        return self

    @model_validator(mode="after")
    def _guesses_need_texts(self) -> Self:
        labelled, epochs = self.training.finetune_epochs, self.training.epochs
        if not labelled:
            return self
        if not self.auto and not self.training.distill_linear:
            raise ValueError(
                f"training.finetune_epochs={labelled} leaves out guessed labels, and without distill_linear there are none; take 0"
            )
        if not self.auto and labelled >= epochs:
            raise ValueError(f"training.finetune_epochs={labelled} leaves no epoch to guessed labels; take fewer than epochs={epochs}")
        name = {"tfds": "unlabelled_split", "files": "unlabelled"}.get(self.data.source)
        if name is None:
            raise ValueError(f"training.finetune_epochs needs unlabelled texts, which source={self.data.source} has none of; take 0")
        if getattr(self.data, name) is None:
            raise ValueError(f"training.finetune_epochs needs unlabelled texts; set data.{name}, or take training.finetune_epochs=0")
        return self
