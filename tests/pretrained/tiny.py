"""Tiny pretrained encoders with random weights, in folders as the Hugging Face libraries write them, made without ``transformers``.

The names of files, settings and tensors are written out here, so that they are not those of the code that is tested.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.loading import config_from_dict
from mha_cli.config.parameters import parameter_table
from mha_cli.pretrained.folder import read_pretrained, with_pretrained
from mha_cli.text.vocabulary import Vocabulary
from tests.checkpoints import WORDS

WIDTH, HEADS, HIDDEN, BLOCKS, POSITIONS = 21, 3, 29, 2, 37
FAMILIES = ("bert", "distilbert", "roberta", "xlm-roberta")

SENTENCES = (
    "The film was superb, and the plot was not dreadful.",
    "A gorgeous, witty, seductive movie: it's never dull.",
    "In the end it is not very good at all!",
    "El niño vio la película en un café; was für ein schöner Film.",
    "這部電影 很好。 यह फ़िल्म अच्छी है",
)

BLOCK_SHAPES = [*[(WIDTH, WIDTH)] * 4, (WIDTH,), (HIDDEN, WIDTH), (WIDTH, HIDDEN), (WIDTH,)]
BERT_BLOCK = [
    *("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"),
    *("attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm"),
]
DISTILBERT_BLOCK = [
    *("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"),
    *("sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm"),
]


def tiny_folder(folder: Path, family: str, seed: int = 0, prefix: str = "", **changes: Any) -> Path:
    """A folder with an encoder of a family; ``prefix`` begins the names of its tensors, and ``changes`` are entries of config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = tiny_tokenizer(family)
    tokenizer.save(str(folder / "tokenizer.json"))
    described = tiny_config(family, tokenizer.get_vocab_size()) | changes
    (folder / "config.json").write_text(json.dumps(described))
    names = {f"{prefix}{name}": tensor for name, tensor in tiny_tensors(described, seed).items()}
    save_file(names, folder / "model.safetensors", {"format": "pt"})
    return folder


def tiny_config(family: str, num_pieces: int) -> dict[str, Any]:
    sizes: dict[str, Any] = {"model_type": family, "vocab_size": num_pieces, "initializer_range": 0.02}
    if family == "distilbert":
        names = {"dim": WIDTH, "n_layers": BLOCKS, "n_heads": HEADS, "hidden_dim": HIDDEN, "activation": "gelu"}
        return {**sizes, **names, "architectures": ["DistilBertModel"], "max_position_embeddings": POSITIONS, "pad_token_id": 0}
    bert = family == "bert"
    return {
        **sizes,
        "architectures": [{"bert": "BertModel", "roberta": "RobertaModel", "xlm-roberta": "XLMRobertaModel"}[family]],
        "hidden_size": WIDTH,
        "num_hidden_layers": BLOCKS,
        "num_attention_heads": HEADS,
        "intermediate_size": HIDDEN,
        "hidden_act": "gelu",
        "max_position_embeddings": POSITIONS if bert else POSITIONS + 2,
        "type_vocab_size": 2 if bert else 1,
        "layer_norm_eps": 1e-12 if bert else 1e-5,
        "pad_token_id": 0 if bert else 1,
    }


def tiny_tensors(described: dict[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """Random weights, biases and norms by the names that PyTorch's modules have."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int, around: float = 0.0) -> np.ndarray:
        return (around + 0.4 * rng.normal(size=shape)).astype(np.float32)

    distilbert = described["model_type"] == "distilbert"
    tensors = {
        "embeddings.word_embeddings.weight": draw(described["vocab_size"], WIDTH),
        "embeddings.position_embeddings.weight": draw(described["max_position_embeddings"], WIDTH),
    }
    if not distilbert:
        tensors["embeddings.token_type_embeddings.weight"] = draw(described["type_vocab_size"], WIDTH)
    groups = {"embeddings.LayerNorm": (WIDTH,)}
    for block in range(BLOCKS):
        for name, shape in zip(DISTILBERT_BLOCK if distilbert else BERT_BLOCK, BLOCK_SHAPES, strict=True):
            groups[f"{'transformer' if distilbert else 'encoder'}.layer.{block}.{name}"] = shape
    for name, shape in groups.items():
        tensors[f"{name}.weight"] = draw(*shape, around=1.0 if len(shape) == 1 else 0.0)
        tensors[f"{name}.bias"] = draw(shape[0])
    return tensors


def tiny_tokenizer(family: str) -> Tokenizer:
    """A tokenizer as the family has it: WordPiece, byte-level BPE or Unigram."""
    if family in ("bert", "distilbert"):
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
        tokenizer.train_from_iterator(SENTENCES, trainers.WordPieceTrainer(vocab_size=151, special_tokens=special, show_progress=False))
        begin, end = "[CLS]", "[SEP]"
        tokenizer.post_processor = processors.TemplateProcessing(
            "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
        )
        return tokenizer
    begin, _, end, unknown = special = ["<s>", "<pad>", "</s>", "<unk>"]
    if family == "roberta":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        tokenizer.train_from_iterator(
            SENTENCES, trainers.BpeTrainer(vocab_size=307, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
        )
        tokenizer.post_processor = processors.RobertaProcessing((end, 2), (begin, 0), add_prefix_space=False)
    else:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" ", " ")])
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
        tokenizer.decoder = decoders.Metaspace()
        tokenizer.train_from_iterator(
            SENTENCES, trainers.UnigramTrainer(vocab_size=113, special_tokens=special, unk_token=unknown, show_progress=False)
        )
        tokenizer.post_processor = processors.TemplateProcessing(f"{begin} $A {end}", special_tokens=[(begin, 0), (end, 2)])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    return tokenizer


def entries_of(folder: Path, name: str = "tokenizer.json") -> dict[str, Any]:
    """What a JSON file of the folder holds."""
    return json.loads((folder / name).read_text())


def tiny_checkpoint(folder: Path, num_classes: int = 3, **model: Any) -> Checkpoint:
    """A classifier with the encoder of a folder and a linear model; the weights of the rest are random."""
    encoder = read_pretrained(folder)
    text = {"vocabulary_size": 29, "sequence_length": 13}
    linear = {"max_ngram": 2, "buckets": 32}
    config = with_pretrained(
        config_from_dict({"text": text, "model": {"pretrained": str(folder), **model}, "linear": linear}, "test"), encoder
    )
    rng, vocabulary, weights = np.random.default_rng(1), Vocabulary(WORDS), {}
    for parameter in parameter_table(config, len(vocabulary), num_classes):
        drawn = rng.normal(0.0, 0.5, parameter.shape).astype(np.float32)
        weights[parameter.path] = encoder.weights.get(parameter.path, drawn)[: parameter.shape[0]]  # positions: the longest text
    class_names = tuple(f"class {number}" for number in range(num_classes))
    return Checkpoint(config, class_names, vocabulary, {"epoch": 1}, weights, '{"of": "Keras"}', tokenizer=encoder.tokenizer)
