from collections.abc import Callable

import numpy as np
import pytest
import text_peers
import torch
from book_torch import Classifier

from mha_cli.config.loading import config_from_dict
from mha_cli.config.settings import Config
from mha_cli.runtime.forward import class_probabilities

pytestmark = pytest.mark.extras

TEXTS = ["good film", "good plot , good end", "not bad", "bad film", "bad plot", "not good"] * 5
LABELS = np.array([1, 1, 1, 0, 0, 0] * 5)


@pytest.mark.parametrize("name", text_peers.PEERS)
def test_a_peer_learns_and_reads_order(name: str) -> None:
    if name == "fasttext":
        pytest.importorskip("fasttext")
    peer = text_peers.PEERS[name](seed=0)
    peer.options = getattr(peer, "options", {}) | {"epoch": 100, "thread": 1}  # fastText alone has options: 30 texts are few
    peer.fit(TEXTS, LABELS)
    assert peer.predict(TEXTS).tolist() == LABELS.tolist()


def test_torch_computes_the_same_model(random_weights: Callable[[Config, int, int], dict[str, np.ndarray]]) -> None:
    """The book's model in sizes that are primes, on reviews of different lengths."""
    sizes = {"embed_dim": 7, "num_heads": 2, "key_dim": 5, "feed_forward_dim": 3}
    config = config_from_dict({"text": {"sequence_length": 11}, "model": sizes, "training": {"optimizer": "rmsprop"}}, "test")
    token_ids = np.where(np.arange(11) < np.array([[11], [3], [1], [8]]), np.arange(1, 45).reshape(4, 11) % 28 + 1, 0).astype(np.int32)
    weights = random_weights(config, 29, 2)
    peer = Classifier(config, 29, sparse=False).eval()
    peer.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in as_torch_has_them(weights).items()})
    with torch.inference_mode():
        probabilities = torch.sigmoid(peer(torch.from_numpy(token_ids))).numpy()
    np.testing.assert_allclose(probabilities, class_probabilities(token_ids, weights, config)[:, 1], atol=1e-5)


def as_torch_has_them(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    def of_heads(kind: str) -> np.ndarray:
        parts = [weights[f"encoder_0/attention/{name}_{kind}"] for name in ("query", "key", "value")]
        return np.concatenate([part.reshape(-1, 10) for part in parts], axis=1)

    names = {"attention_norm": ("gamma", "beta"), "feed_forward_norm": ("gamma", "beta")}
    names |= {"feed_forward_in": ("kernel", "bias"), "feed_forward_out": ("kernel", "bias")}
    layers = {
        f"{name}.{to}": weights[f"encoder_0/{name}/{of}"].T
        for name, ofs in names.items()
        for to, of in zip(("weight", "bias"), ofs, strict=True)
    }
    return layers | {
        "tokens.weight": weights["embedding/token_embedding/words"],
        "positions.weight": weights["embedding/position_embedding/embeddings"],
        "projections.weight": of_heads("kernel").T,
        "projections.bias": of_heads("bias")[0],
        "output.weight": weights["encoder_0/attention/output_kernel"].reshape(10, -1).T,
        "output.bias": weights["encoder_0/attention/output_bias"],
        "classifier.weight": weights["classifier/kernel"].T,
        "classifier.bias": weights["classifier/bias"],
    }
