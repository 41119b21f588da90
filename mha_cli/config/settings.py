"""Every setting of a run: its type, its range, its unit and its meaning.

The models are frozen and refuse unknown keys. The resolved config travels inside the checkpoint.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, Self
from unicodedata import category

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, field_validator, model_validator

from mha_cli.errors import JOINT, MhaError, plural


class Settings(BaseModel):
    """Base of every section: frozen, strict about types and unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _settings_go_together(self) -> Self:
        for fault in self._faults():
            raise ValueError(fault)
        return self

    def _faults(self) -> Iterator[str]:
        """Faults of settings that do not go together."""
        yield from ()

    def changed(self, **settings: Any) -> Self:
        """The same with other settings, checked; a dict holds those of a section that change."""
        return type(self).model_validate(self.merged(settings))

    def merged(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that were given, with others in their place, to be checked; sections that do not change are not checked again."""
        given = self.model_fields_set | ({"source"} & type(self).model_fields.keys())  # the source decides which settings there are
        merged = {name: getattr(self, name) for name in given}
        for name, value in settings.items():
            section = getattr(self, name)
            merged[name] = section.merged(value) if isinstance(section, Settings) and isinstance(value, dict) else value
        return merged


ClassName = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) is int else value), Field(min_length=1)]


class DataSettings(Settings):
    """Settings that every data source has."""

    validation_share: float = Field(0.1, gt=0, le=0.5, description="Share of the training split held out to choose the best epoch.")

    validation: Literal["random", "names"] = Field("random", description="Held out: random by class, or texts with the same rare names.")
    merge_labels: dict[str, str | None] = Field({}, description="Labels taken for others: `{BILLING: billing}`; null leaves texts out.")
    none_label: ClassName | None = Field(
        None, description="Label of texts that belong to no class, which need no training texts; null for none."
    )
    none_answered: float = Field(0.95, gt=0, lt=1, description="With none_label: share of the texts of the classes that still get a label.")

    def _faults(self) -> Iterator[str]:
        for label, other in self.merge_labels.items():
            if other in self.merge_labels:
                yield f"merge_labels takes {label} for {other}, and {other} for {self.merge_labels[other]}; name the last one for both"
            if not other and isinstance(self, SampleData | TfdsData):
                yield f"merge_labels gives {label} no name, which leaves texts out of files only; name another class"


class SampleData(DataSettings):
    """Made-up film reviews from the built-in grammar; needs no network."""

    source: Literal["sample"] = Field("sample", description="The built-in made-up reviews.")
    num_texts: int = Field(6000, ge=200, le=1_000_000, description="Texts in the training split; the test split has a quarter as many.")


class TfdsData(DataSettings):
    """A text-classification set of TensorFlow Datasets."""

    source: Literal["tfds"] = Field(description="TensorFlow Datasets.")
    name: str = Field("imdb_reviews", min_length=1, max_length=200, description="Name in TFDS, with its config if it has one (glue/sst2).")
    train_split: str = Field("train", min_length=1, description="Split to train on.")
    test_split: str = Field("test", min_length=1, description="Split that `mha evaluate` scores by default.")
    unlabelled_split: str | None = Field(None, min_length=1, description="Split to learn from without labels; null for none.")
    text_key: str = Field("text", min_length=1, description="Feature that holds the text.")
    label_key: str = Field("label", min_length=1, description="Feature that holds the class.")


Column = Annotated[str | None, BeforeValidator(lambda value: str(value) if type(value) is int else value)]  # a name or a number
SeveralColumns = Annotated[  # a column, or several; in code their names with ``JOINT`` between them
    Annotated[str, Field(min_length=1)] | None,
    BeforeValidator(lambda value: JOINT.join(map(str, value)) if isinstance(value, list) else str(value) if type(value) is int else value),
    PlainSerializer(lambda value: value.split(JOINT) if value and JOINT in value else value, list[str] | str | None, when_used="json"),
]
Words = Annotated[str | list[str], BeforeValidator(lambda value: "" if value is None else value)]  # about a class: a line or several
LABEL_SEPARATOR = "|"  # between several labels in one cell, where the training data have none
FilePath = Annotated[str, Field(min_length=1)]


def known_encoding(name: str) -> str:
    """The name of a text encoding that Python knows; a ValueError is raised for any other name."""
    with suppress(LookupError, ValueError):  # a ValueError for characters that no name has
        "".encode(name)
        return name
    raise ValueError("no such encoding; name one such as windows-1252, iso-8859-15, gb18030, shift_jis or utf-16")


class FilesData(DataSettings):
    """Labelled texts in tables, JSON lines, fastText's lines or Parquet, or in folders with one sub-folder per class."""

    source: Literal["files"] = Field(description="Your own files or folders.")
    train: FilePath | list[FilePath] | None = Field(
        None, description="Files or folders to train on, or patterns with `*`; null for classes in words and texts without labels."
    )
    more: list[FilePath] = Field([], description="Files added later: their labels replace those of equal texts; held-out texts stay so.")
    test: FilePath | list[FilePath] | None = Field(None, description="Files or folders to test on; null uses test_share, if it is set.")
    test_share: float | None = Field(None, gt=0, lt=1, description="Share of `train` held out for testing, by class; null for none.")
    unlabelled: str | None = Field(None, min_length=1, description="File of texts to learn from without labels; null for none.")
    text_column: SeveralColumns = Field(
        None, description="Text column: name, number from 1, or key with dots; a list, such as `[title, body]`, is one text; null finds it."
    )
    label_column: SeveralColumns = Field(None, description="Column of the class, with label_levels a list, coarse to fine; null finds it.")
    label_columns: list[ClassName] = Field([], description="Columns that are a label each, with marks such as 1 or 0; several per text.")
    weight_column: Column = Field(None, min_length=1, description="Column of how much a text counts: 2 as if twice, 0 not at all.")
    label_separator: str | None = Field(None, min_length=1, max_length=10, description="Separator of labels in one cell; null for none.")
    label_levels: str | None = Field(
        None,
        min_length=1,
        max_length=10,
        description="Separator of the levels of a label, coarse to fine, such as `>`; null for none.",
    )
    encoding: str | None = Field(None, description="Encoding, such as windows-1252; null is UTF-8, or the encoding of a byte-order mark.")
    quoting: bool = Field(True, description="Read quotes in tables as in CSV; false reads them as ordinary characters.")

    _is_known = field_validator("encoding")(lambda name: name and known_encoding(name))

    def _faults(self) -> Iterator[str]:
        yield from super()._faults()
        if self.label_columns and (self.label_column or self.label_separator or self.label_levels):
            yield "label_columns are all labels; take label_column=null, label_separator=null and label_levels=null, or label_columns=[]"
        if self.label_column and JOINT in self.label_column and not self.label_levels:
            yield "label_column names several columns, which is for labels in levels; set label_levels, such as '>', or name one column"
        if self.none_label and (self.label_levels or self.label_columns or self.label_separator):
            yield f"none_label={self.none_label} goes with one label per text, without levels; take none_label=null"
        if self.more and self.validation == "names":
            yield "more adds texts whose names are not compared with those of held-out texts; take validation=random"

    @property
    def train_paths(self) -> list[str]:
        """What to train on, as a list."""
        return [self.train] if isinstance(self.train, str) else self.train or []

    @property
    def test_paths(self) -> list[str]:
        """What to score by default, as a list; empty for none."""
        return [self.test] if isinstance(self.test, str) else self.test or []


class MemoryData(DataSettings):
    """Texts that a Python program gave to mha_cli.train; nothing else can read them again."""

    source: Literal["memory"] = Field("memory", description="Texts of a Python program.")


MAX_BUCKETS = 2**24  # rows of the largest hash table: the row numbers are exact in float32, in which some runtimes of an export sort them
SUBWORD_LENGTHS = (3, 4, 5)  # characters of a subword; a word's two ends are among them


class TextConfig(Settings):
    """How a text becomes token ids."""

    vocabulary_size: int = Field(20_000, ge=3, le=10_000_000, description="Size of the vocabulary, with padding and the unknown word.")
    sequence_length: int = Field(600, ge=1, le=100_000, description="Tokens of a text that the model reads; further tokens are cut.")
    truncation: Literal["head", "tail", "head_and_tail"] = Field("head", description="Which tokens of a longer text are read.")
    punctuation: bool = Field(True, description="Keep punctuation marks as tokens.")
    subword_characters: int = Field(0, ge=0, le=100, description="Characters of a word from which subwords are read; 0 for none.")

    max_pieces: int | None = Field(None, ge=3, le=100_000, description="Most pieces that a pretrained encoder reads; null is its limit.")
    prompt: str | None = Field(
        None, max_length=1_000, description="Text before every text that a pretrained encoder reads; null is its folder's, '' is none."
    )

    def _faults(self) -> Iterator[str]:
        characters, shortest = self.subword_characters, min(SUBWORD_LENGTHS)
        if 0 < characters < shortest:
            yield f"subword_characters={characters} is less than the shortest subword; take {shortest} or more, or 0"
        if any(category(character) == "Cc" and character not in "\n\t" for character in self.prompt or ""):
            yield "prompt has control characters; leave them out"

    @property
    def token_shape(self) -> tuple[int | None, ...]:
        """Shape of a text's tokens: (L,) ids, or (L, 1 + W) ids with code points of W characters; L is None."""
        return (None, 1 + self.subword_characters) if self.subword_characters else (None,)


_WITHOUT_WORD_ORDER: dict[str, dict[str, Any]] = {  # the most that settings may be in a model that ignores the order of words, by section
    "model": {"max_ngram": 1, "conv_kernel_size": 0},
    "linear": {"max_ngram": 1, "end_decay": 0, "context_windows": []},
}


def _power_of_two(buckets: int) -> int:
    if buckets & (buckets - 1):
        below = 1 << (buckets.bit_length() - 1)
        raise ValueError(f"{buckets} is not a power of two; take {below} or {2 * below}")
    return buckets


DECIDED_BY_FOLDER = (  # settings of the encoder that nobody may set beside ``pretrained``
    "embed_dim", "positions", "max_ngram", "ngram_buckets", "ngram_dropout", "subword_buckets", "conv_kernel_size", "num_blocks",
    "num_heads", "num_key_value_heads", "key_dim", "feed_forward_dim", "activation", "gated", "normalization", "norm", "norm_epsilon",
    "query_key_norm", "rotary_base", "local_rotary_base", "max_distance", "global_every", "causal",
)  # fmt: skip

HeadCount = Annotated[int, Field(ge=1, le=256)]


class ModelConfig(Settings):
    """PositionalEmbedding → TransformerEncoder × num_blocks → GlobalMaxPooling1D → Dropout → Dense."""

    pretrained: str | None = Field(None, min_length=1, description="Folder of a pretrained encoder, which decides sizes; null for none.")
    vectors: str | None = Field(None, min_length=1, description="File of word vectors for embeddings and linear model; null for none.")
    num_pieces: int = Field(0, ge=0, le=2_000_000, description="Pieces that a pretrained encoder knows; the folder decides it.")
    embed_dim: int = Field(64, ge=1, le=16_384, description="Width of the embedding and of every block's output.")
    positions: Literal["learned", "sinusoidal", "rotary", "linear_biases", "none"] = Field(
        "learned", description="Positions: added to embeddings (learned, sinusoidal), in attention (rotary, linear_biases), or none."
    )
    rotary_base: float = Field(10_000.0, gt=1, le=1e9, description="Base of the angles of rotary positions.")
    local_rotary_base: float | None = Field(None, gt=1, le=1e9, description="The base in blocks within max_distance; null is rotary_base.")
    max_distance: int | None = Field(None, ge=1, le=100_000, description="Tokens to either side that attention reaches; null for all.")
    global_every: int | None = Field(None, ge=1, le=100, description="With max_distance: each so many blocks, from the first, reach all.")
    causal: bool = Field(False, description="Look at a token and those before it only.")
    max_ngram: int = Field(1, ge=1, le=5, description="Longest n-gram whose hashed embedding is added to the token's; 1 for none.")
    ngram_buckets: int = Field(0, ge=0, le=MAX_BUCKETS, description="Rows of the n-gram embedding table; a power of two.")
    ngram_dropout: float = Field(0.0, ge=0, lt=1, description="Share of the units of n-gram and subword embeddings zeroed in training.")
    subword_buckets: int = Field(0, ge=0, le=MAX_BUCKETS, description="Rows of the subword embedding table, a power of two; 0 for none.")
    conv_kernel_size: int = Field(0, ge=0, le=99, description="Kernel size of a depthwise convolution over embeddings; odd, or 0 for none.")
    num_blocks: int = Field(1, ge=1, le=100, description="Encoder blocks.")
    num_heads: HeadCount | list[HeadCount] = Field(4, description="Attention heads: a number for all blocks, or a list with one per block.")
    num_key_value_heads: HeadCount | None = Field(None, description="Heads of keys and values, for equal groups of heads; null is as many.")
    query_key_norm: bool = Field(False, description="Normalize queries and keys, per head.")
    key_dim: int | None = Field(None, ge=1, le=16_384, description="Width of queries and keys per head; null is embed_dim / num_heads.")
    feed_forward_dim: int = Field(128, ge=1, le=65_536, description="Hidden width of the feed-forward layer.")
    activation: Literal["relu", "gelu", "silu"] = Field("relu", description="Function between the projections of the feed-forward layer.")
    gated: bool = Field(False, description="Multiply the hidden units of the feed-forward layer by a second projection of its input.")
    normalization: Literal["post", "pre"] = Field("post", description="Normalization after residuals (post) or before sub-layers (pre).")
    norm: Literal["layer", "rms"] = Field("layer", description="Layer normalization, or RMS normalization, which leaves the mean.")
    norm_epsilon: float = Field(1e-3, gt=0, le=0.01, description="Added to the variances by a normalization.")
    pooling: Literal["max", "mean", "first", "last"] = Field("max", description="How positions become a vector: maximum, mean, or one.")
    embedding_dropout: float = Field(0.0, ge=0, lt=1, description="Share of embedding units zeroed in training.")
    dropout: float = Field(0.5, ge=0, lt=1, description="Share of pooled features zeroed in training, before the classifier.")

    _are_powers_of_two = field_validator("ngram_buckets", "subword_buckets")(_power_of_two)

    @property
    def awaits_folder(self) -> bool:
        """Whether the folder of the pretrained encoder, which decides the sizes, has not been read yet."""
        return bool(self.pretrained) and not self.num_pieces

    def _faults(self) -> Iterator[str]:
        heads, size = self.num_heads, self.conv_kernel_size
        if size and size % 2 == 0:
            yield f"conv_kernel_size={size} is even, so it has no middle; take {size - 1} or {size + 1}"
        if self.num_pieces and not self.pretrained:
            yield f"num_pieces={self.num_pieces} goes with a pretrained encoder; take num_pieces=0, or set pretrained"
        if self.pretrained and self.vectors:
            yield "pretrained brings its own embeddings, and vectors would start others; take vectors=null, or pretrained=null"
        if self.awaits_folder:
            for name in self.model_fields_set.intersection(DECIDED_BY_FOLDER):
                fault = f"{name}={getattr(self, name)} is decided by the folder that pretrained names"
                yield f"{fault}; leave it out, or take the recipe pretrained"
        if isinstance(heads, list):
            if len(heads) != self.num_blocks:
                yield f"num_heads names {plural(len(heads), 'block')}, num_blocks={self.num_blocks}; name as many"
            if self.key_dim is None:
                yield "num_heads is a list, so key_dim cannot be embed_dim / num_heads; set key_dim"
        elif self.key_dim is None and self.embed_dim % heads:
            divisors = [number for number in range(1, self.embed_dim + 1) if self.embed_dim % number == 0]
            nearest = " or ".join(map(str, sorted(sorted(divisors, key=lambda number: abs(number - heads))[:2])))
            yield f"num_heads={heads} does not divide embed_dim={self.embed_dim}; take num_heads={nearest}, or set key_dim"
        if self.positions == "rotary" and self.heads and self.head_key_dim % 2:
            yield f"positions=rotary turns pairs of numbers, and heads are {self.head_key_dim} wide; set key_dim to an even number"
        if self.num_key_value_heads and any(number % self.num_key_value_heads for number in self.heads):
            yield f"num_key_value_heads={self.num_key_value_heads} does not divide num_heads={heads}; take a divisor, or null"
        for name in ("global_every", "local_rotary_base") if not self.max_distance else ():
            if getattr(self, name):
                yield f"{name}={getattr(self, name)} is for blocks within max_distance, which is null; set it, or take {name}=null"
        if self.local_rotary_base and self.positions != "rotary":
            yield f"local_rotary_base={self.local_rotary_base} goes with positions=rotary; take local_rotary_base=null"
        if self.max_distance and not any(map(self.distance, range(self.num_blocks))):
            yield f"global_every={self.global_every} lets all blocks reach all, and max_distance has no effect; take global_every=null"
        if self.positions == "none" and (self.max_distance or self.causal):
            yield "max_distance and causal carry word order and positions=none must not; take max_distance=null and causal=false"
        if self.positions == "none" and self.pooling in ("first", "last"):
            yield f"pooling={self.pooling} carries word order and positions=none must not; take pooling=max, or mean"

    def distance(self, block: int) -> int | None:
        """Positions to either side that a block's attention reaches; None for all."""
        return None if self.global_every and block % self.global_every == 0 else self.max_distance

    def rotary_base_of(self, block: int) -> float | None:
        """Base of a block's rotary positions; None without them."""
        if self.positions != "rotary":
            return None
        return self.local_rotary_base if self.local_rotary_base and self.distance(block) else self.rotary_base

    @property
    def normalizes_embedding(self) -> bool:
        """Whether the sum of embeddings is normalized: in pretrained encoders, but for those with RMS normalization."""
        return self.num_pieces > 0 and self.norm == "layer"

    @property
    def normalizes_output(self) -> bool:
        """Whether the last block's output is normalized: in pretrained encoders that normalize before sub-layers."""
        return self.num_pieces > 0 and self.normalization == "pre"

    def normalizes_attention(self, block: int) -> bool:
        """Whether a block has a normalization for its attention: all, but the first before whose attention embeddings are normalized."""
        return block > 0 or self.normalization == "post" or not self.normalizes_embedding

    def key_value_heads(self, block: int) -> int:
        """Heads of keys and values of a block."""
        return self.num_key_value_heads or self.heads[block]

    @property
    def heads(self) -> tuple[int, ...]:
        """Attention heads of every block."""
        return tuple(self.num_heads) if isinstance(self.num_heads, list) else (self.num_heads,) * self.num_blocks

    @property
    def head_key_dim(self) -> int:
        """Width of queries and keys per head, in units."""
        return self.key_dim if self.key_dim is not None else self.embed_dim // self.heads[0]


class LinearConfig(Settings):
    """A linear model of n-grams, and subwords if tokens have characters, beside the encoder; `linear: null`, the default, is none."""

    max_ngram: int = Field(3, ge=1, le=5, description="Longest n-gram.")
    buckets: int = Field(1 << 20, ge=1, le=MAX_BUCKETS, description="Rows of the hashed table; a power of two.")
    end_decay: int = Field(0, ge=0, le=100_000, description="Tokens over which the extra weight of a text's end decays; 0 for no extra.")
    context_windows: list[Annotated[int, Field(ge=1, le=100_000)]] = Field(
        [], max_length=5, description="Half-widths, in tokens, of the windows of the learned context weights; [] for none."
    )
    ngram_embeddings: bool = Field(False, description="Read n-gram embeddings as well, learned from labelled and unlabelled texts.")

    _is_power_of_two = field_validator("buckets")(_power_of_two)


class TrainingConfig(Settings):
    """How the weights are found."""

    epochs: int = Field(5, ge=1, le=10_000, description="Passes over the training part, at most.")
    batch_size: int = Field(32, ge=1, le=65_536, description="Texts per step, over all workers and devices.")
    distribution: Literal["none", "mirrored", "multi-worker", "auto"] = Field(
        "none", description="Devices that share a batch: one, all GPUs of the machine, several workers, or the most there are (auto)."
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Type of products in training; auto: bfloat16 if the processor has it and the encoder is wide or pretrained."
    )
    optimizer: Literal["adamw", "adam", "rmsprop"] = Field("adamw", description="Update rule; unused embedding rows stay as they are.")
    learning_rate: float = Field(1e-3, gt=0, le=10, description="Highest learning rate; schedule lowers it.")
    schedule: Literal["constant", "cosine", "warmup-cosine"] = Field(
        "constant", description="Learning rate: constant, falling by half a cosine, or rising for a tenth of all steps before that."
    )
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="Share of the target spread evenly over the classes.")
    few_labels: bool = Field(False, description="Add a contrastive loss; with monitor=last and no teacher, learn from all texts last.")
    trainable_blocks: Literal["auto", "all"] | Annotated[int, Field(ge=0, le=100)] = Field(
        "auto", description="Blocks of a pretrained encoder that learn: all, the last ones, 0 for none (frozen), or auto by the work it is."
    )
    class_weights: Literal["none", "balanced"] = Field("none", description="Loss weights: none, or texts / (classes * texts of the class).")
    finetune_epochs: int = Field(0, ge=0, le=10_000, description="Number of final epochs on labelled texts only.")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="Share of tokens replaced by the unknown token in training.")
    patience: int | None = Field(None, ge=1, le=10_000, description="Epochs without improvement before training stops; null never stops.")
    monitor: Literal["accuracy", "loss", "last"] = Field("accuracy", description="What chooses the epoch: a validation figure, or last.")
    teacher: str | None = Field(None, min_length=1, description="Model that teaches the encoder: linear, a run or a checkpoint.")
    base: str | None = Field(None, min_length=1, description="Run or checkpoint to train on from; `mha train --from RUN` sets it.")
    keep_linear: bool = Field(True, description="Keep the linear model in the checkpoint after it has taught; false drops it.")
    refit_linear: bool = Field(False, description="Fit the linear model of the checkpoint again, with the validation part.")

    @property
    def refits_encoder(self) -> bool:
        """Whether the encoder is trained again with the validation part: for all epochs, and from labels alone."""
        return self.few_labels and self.monitor == "last" and not self.teacher

    def _faults(self) -> Iterator[str]:
        if self.patience and self.monitor == "last":
            yield f"patience={self.patience} waits for a better epoch, and monitor=last has none; take monitor=loss"


class Config(Settings):
    """One run, whole."""

    auto: bool = Field(False, description="Let the data decide the settings that are not given; see recipes.md.")
    task: Literal["single-label", "multi-label"] = Field("single-label", description="One label per text, or any number; the data decide.")
    seed: int = Field(0, ge=0, lt=2**31, description="Seed of the validation split, the initial weights, the batch order and dropout.")
    classes: dict[ClassName, Words] = Field({}, description="Classes in words, for a pretrained encoder or word vectors: lines for each.")
    data: Annotated[SampleData | TfdsData | FilesData | MemoryData, Field(discriminator="source")] = SampleData()
    text: TextConfig = TextConfig()
    model: ModelConfig = ModelConfig()
    linear: LinearConfig | None = Field(None, description="The linear model beside the encoder; null for none.")
    training: TrainingConfig = TrainingConfig()

    @property
    def class_lines(self) -> list[tuple[str, str]]:
        """The name of a class and a line of its words, for each line."""
        lines = {name: [words] if isinstance(words, str) else words for name, words in self.classes.items()}
        return [(name, line.strip()) for name, words in lines.items() for line in words if line.strip()]

    @property
    def compares_words(self) -> bool:
        """Whether the model knows more words than its texts have, so that it can learn from the words of classes."""
        return bool(self.model.pretrained or self.model.vectors)

    @property
    def is_multi_label(self) -> bool:
        """Whether a text may have several labels, or none."""
        return self.task == "multi-label"

    @property
    def cell_separator(self) -> str:
        """What stands between several labels in one cell."""
        return (isinstance(self.data, FilesData) and self.data.label_separator) or LABEL_SEPARATOR

    @property
    def label_levels(self) -> str | None:
        """What stands between the levels of a label; None where labels have no levels."""
        return self.data.label_levels if isinstance(self.data, FilesData) else None

    @property
    def learns_from_validation(self) -> bool:
        """Whether a part of the checkpoint's model learns from the validation part."""
        return self.training.refits_encoder or self.refits_linear

    @property
    def refits_linear(self) -> bool:
        """Whether the linear model of the checkpoint learns from the validation part."""
        return self.linear is not None and self.training.refit_linear and self.training.keep_linear

    @property
    def reads_unlabelled(self) -> bool:
        """Whether the training uses texts without labels."""
        return self.training.teacher is not None or (self.linear is not None and self.linear.ngram_embeddings)

    @property
    def is_frozen(self) -> bool:
        """Whether the encoder is a pretrained one whose weights stay."""
        return bool(self.model.pretrained) and self.training.trainable_blocks == 0

    def for_labels(self, several: bool) -> Self:
        """The same config for texts with one label, or with several; a setting that conflicts raises an MhaError."""
        if self.is_multi_label and not several:
            raise MhaError("task=multi-label, and every text has one label", "set data.label_separator, or give lists of labels")
        if several and self.training.class_weights != "none":
            raise MhaError("training.class_weights=balanced weighs texts by their one class, and texts have several labels", "take none")
        if several and self.data.none_label:
            raise MhaError("data.none_label goes with one label per text, and texts have several", "take null")
        if several and self.label_levels:
            raise MhaError("data.label_levels reads one label per text, and texts have several", "take null")
        return self.changed(task="multi-label") if several else self

    def of_checkpoint(self) -> Self:
        """The config of the checkpoint: without a linear model that only teaches the encoder."""
        if self.training.keep_linear:
            return self
        text = {} if self.model.subword_buckets else {"subword_characters": 0}
        return self.changed(text=text, linear=None, training={"teacher": None, "keep_linear": True, "finetune_epochs": 0})

    def without_positions(self) -> Self:
        """The same config without anything that carries word order."""
        bounded = {
            section: {name: min(getattr(settings, name), most) for name, most in bounds.items()}
            for section, bounds in _WITHOUT_WORD_ORDER.items()
            if (settings := getattr(self, section))
        }
        dropout = self.model.ngram_dropout if self.model.subword_buckets else 0.0
        pooling = self.model.pooling if self.model.pooling in ("max", "mean") else "max"
        in_order = {"max_distance": None, "global_every": None, "local_rotary_base": None, "causal": False, "pooling": pooling}
        bounded["model"] |= {"positions": "none", "ngram_buckets": 0, "ngram_dropout": dropout, **in_order}
        return self.changed(**bounded)

    def _faults(self) -> Iterator[str]:
        for section, bounds in _WITHOUT_WORD_ORDER.items():
            settings = getattr(self, section)
            for name, most in bounds.items() if settings and self.model.positions == "none" else ():
                if (value := getattr(settings, name)) > most:
                    yield f"{section}.{name}={value} carries word order and model.positions=none must not; take {name}={most}"
        if self.is_multi_label and self.data.none_label:
            yield f"data.none_label={self.data.none_label} goes with one label per text; take none_label=null, or task=single-label"
        if isinstance(self.data, FilesData) and not self.data.train and (self.data.test_share or self.data.label_separator):
            setting = "test_share" if self.data.test_share else "label_separator"
            yield f"data.{setting} is about labels, and the texts have none without data.train; take null"
        if isinstance(self.data, FilesData) and not self.data.train and not (self.data.unlabelled and self.classes):
            yield "data.train is missing; give it with --set data.train=FILE, or let `mha init FILE` write a config"
        if isinstance(self.data, FilesData) and self.data.test is not None and self.data.test_share is not None:
            way_out = "take data.test_share=null, or data.test=null"
            yield f"data.test and data.test_share={self.data.test_share} both name test data; {way_out}"
        if not self.auto:  # else these settings are still to be decided
            yield from self._faults_of_ngrams_and_subwords()
        if self.model.vectors and self.linear and self.linear.ngram_embeddings:
            yield "linear.ngram_embeddings=true learns what model.vectors brings; take ngram_embeddings=false, or vectors=null"
        if self.model.vectors and self.training.base:
            yield "model.vectors goes with a training from the start, not with training.base; train anew on all texts"
        if self.text.prompt and not self.model.pretrained:
            yield "text.prompt is for a pretrained encoder, and there is none; take prompt=null, or set model.pretrained"
        if self.model.pretrained and self.training.word_dropout:
            yield f"training.word_dropout={self.training.word_dropout} drops words, and model.pretrained reads pieces; take 0"
        if self.training.teacher == "linear" and not self.linear:
            yield "training.teacher=linear needs a linear model; set linear.max_ngram=3, or take teacher=null"
        may_teach = self.training.teacher == "linear" or (self.auto and self.linear and not self.training.teacher)
        if not (self.training.keep_linear or may_teach):
            yield "training.keep_linear=false drops a linear model that teaches no encoder; take teacher=linear, or keep_linear=true"
        if (labelled := self.training.finetune_epochs) and not self.auto:
            epochs, unlabelled = self.training.epochs, [getattr(self.data, name, None) for name in ("unlabelled", "unlabelled_split")]
            if not (self.training.teacher and any(unlabelled)):
                needs = "data.unlabelled or data.unlabelled_split, and training.teacher"
                yield f"training.finetune_epochs={labelled} leaves out guessed labels, which need {needs}; take 0"
            elif labelled >= epochs:
                yield f"training.finetune_epochs={labelled} leaves no epoch to guessed labels; take fewer than epochs={epochs}"

    def _faults_of_ngrams_and_subwords(self) -> Iterator[str]:
        ngrams, ngram_buckets = self.model.max_ngram, self.model.ngram_buckets
        characters, buckets = self.text.subword_characters, self.model.subword_buckets
        if (ngrams > 1) != (ngram_buckets > 0):
            both = f"model.max_ngram={ngrams} and model.ngram_buckets={ngram_buckets} do not go together"
            yield f"{both}; take max_ngram=1 and ngram_buckets=0, or more of both"
        if not characters and buckets:
            yield f"model.subword_buckets={buckets} needs text.subword_characters above 0; take 24, or subword_buckets=0"
        if characters and not (buckets or self.linear):
            yield f"text.subword_characters={characters} has no effect; set model.subword_buckets or linear, or take subword_characters=0"
