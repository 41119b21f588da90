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

    validation_share: float = Field(
        0.1,
        gt=0,
        le=0.5,
        description="Share of the training split held out to choose the best epoch; stratified by class where it is drawn at random.",
    )

    validation: Literal["random", "names"] = Field(
        "random",
        description="How the texts held out are chosen: random draws each class in proportion; names keeps texts that share rare "
        "capitalised words (in the letters A to Z), as those about one film do, on one side.",
    )


class SampleData(DataSettings):
    """Made-up film reviews from the built-in grammar; needs no network."""

    source: Literal["sample"] = Field("sample", description="The built-in made-up reviews.")
    num_texts: int = Field(6000, ge=200, le=1_000_000, description="Texts in the training split; the test split has a quarter of that.")
    seed: int = Field(0, ge=0, lt=2**32, description="Seed of the grammar: same seed, same texts.")


class TfdsData(DataSettings):
    """A text-classification set of TensorFlow Datasets."""

    source: Literal["tfds"] = Field(description="TensorFlow Datasets.")
    name: str = Field(
        "imdb_reviews", min_length=1, max_length=200, description="Name in the TFDS catalogue, with a config if it has one (glue/sst2)."
    )
    data_dir: str | None = Field(None, description="TFDS data directory; null takes $TFDS_DATA_DIR, else TFDS's own default.")
    train_split: str = Field("train", min_length=1, description="Split to train on.")
    test_split: str = Field("test", min_length=1, description="Split that `mha evaluate` scores by default.")
    unlabelled_split: str | None = Field(
        None, min_length=1, description="Split whose texts are learnt from without their labels; null for none."
    )
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
    """Labelled texts in tables, JSON lines, fastText's lines or Parquet, or in folders with one sub-folder a class."""

    source: Literal["files"] = Field(description="Files or folders of one's own.")
    train: FilePath | list[FilePath] = Field(
        min_length=1,
        description="File or folder to train on, or a list of them; `*` stands for anything in a name. Relative paths start at the "
        "current folder.",
    )
    test: FilePath | list[FilePath] | None = Field(
        None,
        description="File or folder, or a list of them, that `mha evaluate` scores by default; null for test_share, or for none.",
    )
    test_share: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Share of the texts in `train` that no training sees and `mha evaluate` scores by default; null for none. It is "
        "stratified by class, equal texts are on one side, and every seed leaves out the same texts.",
    )
    unlabelled: str | None = Field(None, min_length=1, description="Text file to learn from without labels, a text a line; null for none.")
    text_column: Column = Field(
        None,
        min_length=1,
        description="Column or key of the text; null finds it in the first file as `mha init` does. A table whose columns are given by "
        "their numbers, from 1, has no header line; a dot leads into a nested object.",
    )
    label_column: Column = Field(None, min_length=1, description="Column or key of the class; null finds it likewise.")
    encoding: str | None = Field(
        None, description="Encoding of the files, such as windows-1252; null is UTF-8. A file with a byte-order mark needs none."
    )
    quoting: bool = Field(True, description="Read quotes in tables as in CSV; with false they are characters like any other.")

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
        description="Most tokens to know, padding and the unknown word among them: the most frequent of the training part; all others are "
        "the unknown word.",
    )
    sequence_length: int = Field(600, ge=1, le=100_000, description="Tokens of a text that the model reads; the rest is cut.")
    truncation: Literal["head", "tail", "head_and_tail"] = Field(
        "head",
        description="Which tokens of a text longer than sequence_length are read: the first, the last, or half of them at either end.",
    )
    lowercase: bool = Field(True, description="Turn every word into lower case.")
    punctuation: bool = Field(True, description="Keep punctuation marks as tokens.")
    subword_characters: int = Field(
        0,
        ge=0,
        le=100,
        description="Characters of a word, its two ends included, whose n-grams are its subwords; 0 reads words whole.",
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


_WITHOUT_WORD_ORDER: dict[str, Any] = {"max_ngram": 1, "conv_kernel_size": 0, "score_ngrams": 1, "score_ending": 0, "score_windows": []}
"""The most that a setting may be in a model that ignores the order of words."""

HeadCount = Annotated[int, Field(ge=1, le=256)]


class ModelConfig(Settings):
    """PositionalEmbedding → TransformerEncoder × num_blocks → GlobalMaxPooling1D → Dropout → Dense."""

    embed_dim: int = Field(64, ge=1, le=16_384, description="Width of the embedding and of every block's output, in units.")
    positions: Literal["learned", "sinusoidal", "none"] = Field("learned", description="How a token's position is added to its embedding.")
    max_ngram: int = Field(1, ge=1, le=5, description="Longest n-gram whose hashed embedding is added to the token's; 1 adds none.")
    ngram_buckets: int = Field(0, ge=0, le=MAX_BUCKETS, description="Rows of the table that all n-grams share; a power of two.")
    ngram_dropout: float = Field(
        0.0, ge=0, lt=1, description="Share of the units of n-gram embeddings, and of the subwords' mean, zeroed in training."
    )
    subword_buckets: int = Field(
        0,
        ge=0,
        le=MAX_BUCKETS,
        description="Rows of the table of subwords, a power of two; their mean embedding is added to the token's; 0 for none.",
    )
    conv_kernel_size: int = Field(
        0,
        ge=0,
        le=99,
        description="Tokens whose embeddings, each times learnt numbers, are added to that of the one in their middle; odd; 0 for none.",
    )
    score_ngrams: int = Field(
        0,
        ge=0,
        le=5,
        description="Longest n-gram that counts in a text's score by a linear model, a feature beside the encoder's; 0 for none.",
    )
    score_buckets: int = Field(
        0, ge=0, le=MAX_BUCKETS, description="Rows of the table of scores, which n-grams share by hash; a power of two."
    )
    score_subwords: bool = Field(False, description="Count subwords in the score too, by rows of the same table.")
    score_ending: int = Field(
        0,
        ge=0,
        le=100_000,
        description="Tokens over which a text's end fades: there an n-gram counts up to double in the score; 0 weighs all positions alike.",
    )
    score_windows: list[Annotated[int, Field(ge=1, le=100_000)]] = Field(
        [],
        max_length=5,
        description="Tokens to either side whose mean salience, which is learnt, says how much an n-gram counts in the score: a number "
        "a window; [] for none.",
    )
    num_blocks: int = Field(1, ge=1, le=100, description="Encoder blocks.")
    num_heads: HeadCount | list[HeadCount] = Field(4, description="Attention heads: a number for all blocks, or a list with one a block.")
    key_dim: int | None = Field(None, ge=1, le=16_384, description="Width of queries and keys per head; null is embed_dim / num_heads.")
    feed_forward_dim: int = Field(128, ge=1, le=65_536, description="Hidden width of the feed-forward layer, in units.")
    activation: Literal["relu", "gelu"] = Field("relu", description="Function between the two projections of the feed-forward layer.")
    normalization: Literal["post", "pre"] = Field(
        "post", description="Layer normalization after each residual sum (the paper, the book) or before each sub-layer."
    )
    attention_score: Literal["dot_product", "additive"] = Field(
        "dot_product", description="How well a key suits a query: q·k, or wᵀ tanh(q + k)."
    )
    use_scale: bool = Field(True, description="Multiply dot products by 1/√key_dim; false shows what that is there for.")
    attention_implementation: Literal["auto", "fused", "per_head", "blockwise", "folded"] = Field(
        "auto",
        description="How attention is computed, with the same numbers: all heads at once, head by head, in blocks of little memory, "
        "or with the kernels multiplied first, for heads as wide as embed_dim.",
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

    @field_validator("ngram_buckets", "subword_buckets", "score_buckets")
    @classmethod
    def _buckets_are_a_power_of_two(cls, buckets: int) -> int:
        if buckets & (buckets - 1):
            below = 1 << (buckets.bit_length() - 1)
            raise ValueError(f"{buckets} is not a power of two; take {below} or {2 * below}")
        return buckets

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

    @model_validator(mode="after")
    def _ngrams_fit_positions_and_tables(self) -> Self:
        for name, most in _WITHOUT_WORD_ORDER.items():
            if self.positions == "none" and getattr(self, name) > most:
                raise ValueError(f"{name}={getattr(self, name)} carries word order and positions=none must not; take {name}={most}")
        for name in ("score_ending", "score_windows"):
            if getattr(self, name) and not self.score_ngrams:
                none = _WITHOUT_WORD_ORDER[name]
                raise ValueError(f"{name}={getattr(self, name)} weighs n-gram scores, and score_ngrams=0 has none; take {name}={none}")
        if self.score_subwords and not self.score_ngrams:
            raise ValueError(
                "score_subwords=true counts beside n-grams, and score_ngrams=0 has none; take score_subwords=false, or score_ngrams=1"
            )
        return self

    @property
    def heads(self) -> tuple[int, ...]:
        """Attention heads of every block."""
        return tuple(self.num_heads) if isinstance(self.num_heads, list) else (self.num_heads,) * self.num_blocks

    @property
    def head_key_dim(self) -> int:
        """Width of queries and keys per head, in units."""
        return self.key_dim if self.key_dim is not None else self.embed_dim // self.heads[0]

    def without_positions(self) -> ModelConfig:
        """The same model without anything that carries word order."""
        bounded = {name: min(getattr(self, name), most) for name, most in _WITHOUT_WORD_ORDER.items()}
        dropout = self.ngram_dropout if self.subword_buckets else 0.0
        return self.model_copy(update={"positions": "none", "ngram_buckets": 0, "ngram_dropout": dropout, **bounded})


class TrainingConfig(Settings):
    """How the weights are found."""

    epochs: int = Field(5, ge=1, le=10_000, description="Passes over the training part, at most.")
    batch_size: int = Field(32, ge=1, le=65_536, description="Texts in a step, of all workers and devices together.")
    distribution: Literal["none", "mirrored", "multi-worker", "auto"] = Field(
        "none",
        description="Devices that share the batches: one, all GPUs of the machine, or those of all workers that TF_CONFIG or srun names; "
        "auto is the last of these that is there.",
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="Numbers in which training multiplies matrices: float32 (32 bits), bfloat16 (16 bits, faster on processors that have "
        "it), or auto, bfloat16 where the processor has it and heads are 128 wide or more. All else is float32.",
    )
    optimizer: Literal["adamw", "adam", "rmsprop"] = Field(
        "adamw",
        description="Update rule, with Keras's default coefficients. On embedding tables adam and adamw are lazy: a step changes only the "
        "rows of its own tokens, and only their moments.",
    )
    learning_rate: float = Field(
        1e-3, gt=0, le=10, description="Factor of every step's change of the weights, at its highest; warmup_share and schedule lower it."
    )
    schedule: Literal["constant", "cosine"] = Field(
        "constant", description="Learning rate over the steps: flat, or falling to zero along half a cosine."
    )
    warmup_share: float = Field(
        0.0, ge=0, lt=1, description="Share of all steps over which the learning rate first rises from zero, linearly."
    )
    weight_decay: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Decoupled decay per step and unit of learning rate, of all weights but biases, layer normalization and the embedding "
        "tables of words, n-grams and subwords; adamw only.",
    )
    clip_norm: float | None = Field(
        None, gt=0, description="Largest global norm of the gradient of all weights but the embedding tables; null does not clip."
    )
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="Share of the target spread evenly over the classes.")
    class_weights: Literal["none", "balanced"] = Field(
        "none",
        description="Weight of a text's loss: balanced is texts / (classes * texts of its class), so that all classes count alike, "
        "however rare.",
    )
    finetune_epochs: int = Field(
        0,
        ge=0,
        le=10_000,
        description="The last epochs, so many of them, learn from labelled texts alone and leave out those with a guessed label.",
    )
    word_dropout: float = Field(0.0, ge=0, lt=1, description="Share of tokens turned into the unknown token in training.")
    patience: int | None = Field(
        None, ge=1, le=10_000, description="Epochs without a better validation score after which training stops; null never stops early."
    )
    monitor: Literal["accuracy", "loss", "last"] = Field(
        "accuracy",
        description="Validation figure that chooses the best epoch; last takes the last one, where few texts would choose by chance.",
    )
    score_vectors: bool = Field(
        False,
        description="The n-gram scores are fitted on vectors of n-grams as well, which come from all texts, those without labels, too.",
    )
    distill_linear: bool = Field(
        False,
        description="The n-gram scores teach the encoder: the target of a text is half its label, half what scores fitted on other texts "
        "say of it; of a text without a label it is all theirs.",
    )
    keep_linear: bool = Field(
        True, description="Whether n-gram scores that have taught the encoder stay beside it in the checkpoint; without, it stands alone."
    )
    refit_scores: bool = Field(
        False,
        description="Fit the n-gram scores that the checkpoint keeps on the validation part too; what chooses the epoch, and says how much "
        "they count, is scores fitted without it.",
    )

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

    auto: bool = Field(
        False, description="Decide what is not set here from the data: lengths, sizes of tables, epochs and the like; see recipes.md."
    )
    seed: int = Field(0, ge=0, lt=2**31, description="Seed of the validation split, the initial weights, the batch order and dropout.")
    data: Annotated[SampleData | TfdsData | FilesData | MemoryData, Field(discriminator="source")] = SampleData()
    text: TextConfig = TextConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()

    @property
    def learns_from_validation(self) -> bool:
        """Whether the n-gram scores learn from the validation part in the end."""
        return self.model.score_ngrams > 0 and self.training.refit_scores and self.training.keep_linear

    def of_checkpoint(self) -> Self:
        """The config of what the run keeps: without n-gram scores if they were only to teach the encoder."""
        if self.training.keep_linear:
            return self
        none = {name: field.default for name, field in ModelConfig.model_fields.items() if name.startswith("score_")}
        training = self.training.model_copy(
            update={"distill_linear": False, "keep_linear": True, "finetune_epochs": 0, "score_vectors": False}
        )
        text = self.text if self.model.subword_buckets else self.text.model_copy(update={"subword_characters": 0})
        return self.model_copy(update={"text": text, "model": self.model.model_copy(update=none), "training": training})

    @model_validator(mode="after")
    def _ngrams_have_tables(self) -> Self:
        model = self.model
        if self.auto:  # the tables are still to be decided
            return self
        for ngrams, least, buckets in (("score_ngrams", 0, "score_buckets"), ("max_ngram", 1, "ngram_buckets")):
            if (getattr(model, ngrams) > least) != (getattr(model, buckets) > 0):
                raise ValueError(
                    f"model.{ngrams}={getattr(model, ngrams)} and model.{buckets}={getattr(model, buckets)} do not go together; "
                    f"take {ngrams}={least} and {buckets}=0, or more of both"
                )
        return self

    @model_validator(mode="after")
    def _subwords_have_characters(self) -> Self:
        if self.auto:
            return self
        characters, buckets, scored = self.text.subword_characters, self.model.subword_buckets, self.model.score_subwords
        if not characters and buckets:
            raise ValueError(f"model.subword_buckets={buckets} needs text.subword_characters above 0; take 24, or subword_buckets=0")
        if not characters and scored:
            raise ValueError("model.score_subwords=true needs text.subword_characters above 0; take 24, or score_subwords=false")
        if characters and not (buckets or scored):
            raise ValueError(
                f"text.subword_characters={characters} is read by neither model.subword_buckets=0 nor model.score_subwords=false; "
                "set one of the two, or take subword_characters=0"
            )
        return self

    @model_validator(mode="after")
    def _scores_to_distil(self) -> Self:
        if self.training.distill_linear and not self.model.score_ngrams:
            raise ValueError("training.distill_linear has nothing to learn from with model.score_ngrams=0; take score_ngrams=3")
        if self.training.score_vectors and not self.model.score_ngrams:
            raise ValueError("training.score_vectors has no n-grams to learn of with model.score_ngrams=0; take score_ngrams=3")
        may_distil = self.training.distill_linear or (self.auto and self.model.score_ngrams)
        if not (self.training.keep_linear or may_distil):
            raise ValueError(
                "training.keep_linear=false leaves out scores that teach nobody; take distill_linear=true, or keep_linear=true"
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
