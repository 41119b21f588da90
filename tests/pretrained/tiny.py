"""Tiny pretrained encoders with random weights, in folders as the Hugging Face libraries write them, made without ``transformers``.

The names of files, settings and tensors are written out here, so that they are not those of the code that is tested.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.loading import config_from_dict
from mha_cli.config.parameters import parameter_table
from mha_cli.pretrained.folder import read_pretrained, with_pretrained
from mha_cli.text.vocabulary import Vocabulary
from tests.checkpoints import WORDS

WIDTH, HEADS, HIDDEN, BLOCKS, POSITIONS = 21, 3, 29, 2, 37
FAMILIES = ("bert", "distilbert", "roberta", "xlm-roberta", "modernbert", "qwen3")
ENDS = {  # special pieces before a text and after it
    "bert": (["[CLS]"], ["[SEP]"]), "distilbert": (["[CLS]"], ["[SEP]"]), "roberta": (["<s>"], ["</s>"]),
    "xlm-roberta": (["<s>"], ["</s>"]), "modernbert": (["[CLS]"], ["[SEP]"]), "qwen3": ([], ["<|endoftext|>"]),
}  # fmt: skip
PADDING = {
    "bert": "[PAD]", "distilbert": "[PAD]", "roberta": "<pad>", "xlm-roberta": "<pad>", "modernbert": "[PAD]", "qwen3": "<|endoftext|>",
}  # fmt: skip
QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

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
    described = tiny_config(family, tokenizer) | changes
    (folder / "config.json").write_text(json.dumps(described))
    names = {f"{prefix}{name}": tensor for name, tensor in tiny_tensors(described, seed).items()}
    save_file(names, folder / "model.safetensors", {"format": "pt"})
    return folder


def tiny_config(family: str, tokenizer: Tokenizer) -> dict[str, Any]:
    sizes: dict[str, Any] = {"model_type": family, "vocab_size": tokenizer.get_vocab_size(), "initializer_range": 0.02}
    if family == "modernbert":  # as of transformers 4; blocks 0 and 3 look at all pieces, the others at two to either side
        bases = {"global_attn_every_n_layers": 3, "local_attention": 5, "global_rope_theta": 1_600.0, "local_rope_theta": 100.0}
        biases = {"attention_bias": False, "mlp_bias": False, "norm_bias": False}
        numbers = {"hidden_size": 30, "num_hidden_layers": 5, "num_attention_heads": HEADS, "intermediate_size": HIDDEN}
        norms = {"norm_eps": 1e-4, "layer_norm_eps": 1e-5, "hidden_activation": "gelu", "position_embedding_type": "absolute"}
        special = {
            "pad_token_id": tokenizer.token_to_id("[PAD]"),
            "max_position_embeddings": POSITIONS,
            "architectures": ["ModernBertModel"],
        }
        return {**sizes, **bases, **biases, **numbers, **norms, **special}
    if family == "qwen3":
        numbers = {"hidden_size": WIDTH, "num_hidden_layers": BLOCKS, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10}
        off = {"attention_bias": False, "rope_scaling": None, "sliding_window": None, "use_sliding_window": False, "max_window_layers": 28}
        others = {"hidden_act": "silu", "rms_norm_eps": 1e-4, "rope_theta": 1_000, "intermediate_size": HIDDEN, "bos_token_id": 3}
        return {**sizes, **numbers, **off, **others, "max_position_embeddings": POSITIONS, "architectures": ["Qwen3ForCausalLM"]}
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

    is_modern = described["model_type"] in ("modernbert", "qwen3")
    scale = 0.2 if is_modern else 0.4  # without normalizations after residuals, hidden states grow, and float32 is less exact

    def draw(*shape: int, around: float = 0.0) -> np.ndarray:
        return (around + scale * rng.normal(size=shape)).astype(np.float32)

    if is_modern:
        shapes = (modernbert_shapes if described["model_type"] == "modernbert" else qwen3_shapes)(described)
        return {name: draw(*shape, around=1.0 if name.endswith("norm.weight") else 0.0) for name, shape in shapes.items()}
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


def modernbert_shapes(described: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    width, hidden = described["hidden_size"], described["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {"embeddings.tok_embeddings.weight": (described["vocab_size"], width)}
    shapes |= {"embeddings.norm.weight": (width,), "final_norm.weight": (width,)}
    for block in (f"layers.{number}" for number in range(described["num_hidden_layers"])):
        shapes |= {f"{block}.attn.Wqkv.weight": (3 * width, width), f"{block}.attn.Wo.weight": (width, width)}
        shapes |= {f"{block}.mlp.Wi.weight": (2 * hidden, width), f"{block}.mlp.Wo.weight": (width, hidden)}
        shapes |= {f"{block}.attn_norm.weight": (width,), f"{block}.mlp_norm.weight": (width,)}
    del shapes["layers.0.attn_norm.weight"]
    biased = {"attn.W": "attention_bias", "mlp.W": "mlp_bias", "norm": "norm_bias"}
    named = [name for name in shapes if any(part in name and described[flag] for part, flag in biased.items())]
    return shapes | {name.replace("weight", "bias"): shapes[name][:1] for name in named}


def qwen3_shapes(described: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    width, hidden, head = described["hidden_size"], described["intermediate_size"], described["head_dim"]
    queries, keys = head * described["num_attention_heads"], head * described["num_key_value_heads"]
    shapes: dict[str, tuple[int, ...]] = {"embed_tokens.weight": (described["vocab_size"], width), "norm.weight": (width,)}
    for block in (f"layers.{number}" for number in range(described["num_hidden_layers"])):
        attention = {"q": (queries, width), "k": (keys, width), "v": (keys, width), "o": (width, queries)}
        shapes |= {f"{block}.self_attn.{name}_proj.weight": shape for name, shape in attention.items()}
        shapes |= {f"{block}.mlp.{name}_proj.weight": (hidden, width) for name in ("gate", "up")}
        shapes |= {f"{block}.mlp.down_proj.weight": (width, hidden)}
        shapes |= {f"{block}.self_attn.{name}_norm.weight": (head,) for name in "qk"}
        shapes |= {f"{block}.{name}_layernorm.weight": (width,) for name in ("input", "post_attention")}
    named = [name for name in shapes if "_proj" in name and "self_attn" in name and described["attention_bias"]]
    return shapes | {name.replace("weight", "bias"): shapes[name][:1] for name in named}


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
    if family in ("modernbert", "qwen3"):
        return modern_tokenizer(family)
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


def modern_tokenizer(family: str) -> Tokenizer:
    """Byte-level BPE whose special pieces come last: ModernBERT's or Qwen's."""
    tokenizer, plain = Tokenizer(models.BPE()), family == "modernbert"
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    words = pre_tokenizers.Split(Regex(QWEN_WORDS), behavior="isolated", invert=False)
    in_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=plain)
    tokenizer.pre_tokenizer = in_bytes if plain else pre_tokenizers.Sequence([words, in_bytes])
    first = ["|||IP_ADDRESS|||", "<|padding|>"] if plain else []  # the first is no special piece
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=307, special_tokens=first, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    if not plain:
        tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
        end = tokenizer.token_to_id("<|endoftext|>")
        template = processors.TemplateProcessing("$A <|endoftext|>", "$A <|endoftext|> $B <|endoftext|>", [("<|endoftext|>", end)])
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
        return tokenizer
    tokenizer.add_tokens([AddedToken(" " * number, normalized=True) for number in range(24, 1, -1)])
    tokenizer.add_tokens([AddedToken("|||EMAIL_ADDRESS|||", normalized=True)])
    tokenizer.add_special_tokens(["<|endoftext|>", "[UNK]", "[CLS]", "[SEP]", "[PAD]", AddedToken("[MASK]", lstrip=True, special=True)])
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id("[PAD]"), pad_token="[PAD]")
    ends = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ends)
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
