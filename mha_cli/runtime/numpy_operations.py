"""NumPy's operations of ``forward.py``, in the ways that take it least time and memory, float32.

Axes: B batch, L length (M when keys are meant), H heads, K width per head, F = H·K, D model width; of the linear model N n-grams of a text,
R buckets, U units of the logits; of subwords T tokens of all texts, W characters of a token.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from mha_cli.arrays import Array, Floats
from mha_cli.config.settings import SUBWORD_LENGTHS
from mha_cli.system.working_memory import SCORE_BLOCK, blocks
from mha_cli.text.ngrams import earlier, hashed_subwords

Weights = Mapping[str, Floats]

MODERATE = 60.0  # scores of at most this size have exponentials that float32 holds, and adds up, without taking the largest score off first

LOWEST = np.float32(-3e38)  # the score of a key that a query may not look at

TAIL = (0.5307027145, -0.7265760135, 0.7107068705, -0.142248368, 0.127414796)
"""Coefficients of Φ(-|x|) in ``gelu``, those of the highest power first: half those of the source."""


class NumpyOperations:
    """The operations. With ``keep_attention``, ``kept`` has the attention weights (B, H, L, M) of every block."""

    concatenate = staticmethod(np.concatenate)
    earlier = staticmethod(earlier)

    def __init__(self, keep_attention: bool = False) -> None:
        self._keep_attention = keep_attention
        self.kept: list[Array] = []

    def weight(self, weight: Floats, path: str) -> Floats:
        return weight

    def norm(self, x: Array, gamma: Array, beta: Array, epsilon: float) -> Array:
        centred: Array = x - _means(x)
        centred /= np.sqrt(_means(np.square(centred)) + np.float32(epsilon))
        centred *= gamma
        centred += beta
        return centred

    def rms_norm(self, x: Array, scale: Array, epsilon: float) -> Array:
        normed: Array = x / np.sqrt(_means(np.square(x)) + np.float32(epsilon))
        normed *= scale
        return normed

    def affine(self, x: Array, kernel: Array, bias: Array) -> Array:
        output: Array = x.reshape(-1, x.shape[-1]) @ kernel
        output += bias
        return output.reshape(*x.shape[:-1], -1)

    def relu(self, x: Array) -> Array:
        return np.maximum(x, 0.0, out=x)

    def gelu(self, x: Array) -> Array:
        """It is max(0, x) - |x| Φ(-|x|), and this Φ a polynomial times an exponential, to 1e-7: several times faster than SciPy's.

        Source: Abramowitz and Stegun 1964, "Handbook of Mathematical Functions", eq. 7.1.26.
        """
        size: Array = np.abs(x)
        t = np.reciprocal(np.float32(1.0) + np.float32(0.3275911 * 0.5**0.5) * size)
        tail = np.zeros_like(t)
        for coefficient in TAIL:
            tail += np.float32(coefficient)
            tail *= t
        np.multiply(x, x, out=t)
        t *= np.float32(-0.5)
        tail *= np.exp(t, out=t)
        tail *= size
        activated: Array = np.subtract(np.maximum(x, 0.0, out=size), tail, out=tail)
        return activated

    def silu(self, x: Array) -> Array:
        activated: Array = x / (np.float32(1.0) + np.exp(-x))
        return activated

    def split_heads(self, x_BLF: Array, num_heads: int, width: int) -> Array:
        return x_BLF.reshape(*x_BLF.shape[:2], num_heads, width).swapaxes(1, 2)

    def merge_heads(self, mixed_BHLK: Array, width: int) -> Array:
        batch, _, length, _ = mixed_BHLK.shape
        return mixed_BHLK.swapaxes(1, 2).reshape(batch, length, width)

    def repeat_heads(self, x_BGMK: Array, num_heads: int, times: int) -> Array:
        return np.repeat(x_BGMK, times, axis=1)

    def half_turn(self, x: Array, width: int) -> Array:
        turned: Array = np.concatenate([-x[..., width // 2 :], x[..., : width // 2]], axis=-1)
        return turned

    def attention(
        self, q_BHLK: Array, k_BHMK: Array, v_BHMK: Array, real_BM: Array, scale: float, max_distance: int | None = None,
        causal: bool = False, slopes_H: Array | None = None,
    ) -> Array:  # fmt: skip
        # Scores are computed a block of texts at a time, those of long texts a block of queries: memory grows linearly with length.
        real_B1M1 = real_BM[:, None, :, None]
        k_BHMK = np.where(real_B1M1, k_BHMK, k_BHMK[:, :, :1])  # a padded key scores as the first does: it never is the largest alone
        # Σ exp(s) v and Σ exp(s) in one product: a padded key counts in neither, and dividing afterwards spares a pass over (B, H, L, M).
        v_and_one = np.concatenate([v_BHMK, np.ones_like(v_BHMK[..., :1])], axis=-1) * real_B1M1
        moderate = _largest_norm(q_BHLK) * _largest_norm(k_BHMK) < MODERATE
        batch, heads, length, width = q_BHLK.shape
        sums = np.empty((batch, heads, length, width + 1), np.float32)
        attention_BHLM = np.zeros((batch, heads, length, length) if self._keep_attention else (0,), np.float32)
        for rows, queries, keys in _score_blocks(batch, length, heads, max_distance):
            scores = (q_BHLK[rows, :, queries] * np.float32(scale)) @ k_BHMK[rows, :, keys].swapaxes(-1, -2)
            if max_distance is not None or causal or slopes_H is not None:
                _by_distance(scores, queries, keys, real_BM[rows, None, None, keys], max_distance, causal, slopes_H)
            if not moderate:
                scores -= scores.max(axis=-1, keepdims=True)
            exponentials = np.exp(scores, out=scores)
            np.matmul(exponentials, v_and_one[rows, :, keys], out=sums[rows, :, queries])
            if self._keep_attention:
                attention_BHLM[rows, :, queries, keys] = exponentials * real_B1M1[rows, :, keys].swapaxes(2, 3)
        totals_BHL1 = np.maximum(sums[..., -1:], np.float32(1e-30))  # 0 for a text without words, which looks nowhere
        if self._keep_attention:
            self.kept.append(attention_BHLM / totals_BHL1)
        mixed_BHLK: Array = sums[..., :-1] / totals_BHL1
        return mixed_BHLK

    def pool(self, x_BLD: Array, real_BL: Array, pooling: str) -> Array:
        numbers_B1 = np.count_nonzero(real_BL, axis=1, keepdims=True)
        if pooling == "first":
            pooled_BD = x_BLD[:, 0]
        elif pooling == "last":
            pooled_BD = np.take_along_axis(x_BLD, np.maximum(numbers_B1 - 1, 0)[:, :, None], axis=1)[:, 0]
        elif pooling == "mean":
            pooled_BD = np.einsum("bl,bld->bd", real_BL.astype(np.float32), x_BLD) / np.maximum(numbers_B1, 1).astype(np.float32)
        else:
            pooled_BD = np.where(real_BL[:, :, None], x_BLD, np.float32(-np.inf)).max(axis=1)
        return np.where(numbers_B1 > 0, pooled_BD, np.float32(0.0))

    def first_rows(self, rows: Callable[[int], Array], ids_BL: Array) -> Array:
        return rows(ids_BL.shape[1])[: ids_BL.shape[1]]

    def subword_sums(self, table_RD: Array, tokens: Array) -> tuple[Array, Array]:
        """The longest tokens come first: those with a subword that ends at a character are the first few, and no row is taken in vain.

        Source: Bojanowski et al. 2017, "Enriching Word Vectors with Subword Information", section 3.2, without the word itself.
        """
        characters_TW = tokens[:, :, 1:].reshape(-1, tokens.shape[2] - 1)
        lengths_T = np.count_nonzero(characters_TW, axis=1)
        order_T = np.argsort(-lengths_T)
        characters_TW = characters_TW[order_T, : lengths_T.max(initial=0)]
        reaching_W = np.count_nonzero(characters_TW, axis=0).tolist()
        sorted_TD, sums_TD = np.zeros((2, len(order_T), table_RD.shape[1]), np.float32)
        for n, (buckets_TW, _) in zip(SUBWORD_LENGTHS, hashed_subwords(characters_TW, len(table_RD)), strict=True):
            for last, reaching in enumerate(reaching_W[n - 1 :], n - 1):
                sorted_TD[:reaching] += table_RD.take(buckets_TW[:reaching, last], axis=0)
        sums_TD[order_T] = sorted_TD
        numbers_T = sum(np.maximum(lengths_T - n + 1, 0) for n in SUBWORD_LENGTHS)
        return sums_TD.reshape(*tokens.shape[:2], -1), numbers_T.astype(np.float32).reshape(*tokens.shape[:2], 1)

    def with_neighbours(self, x_BLD: Array, kernel_ND: Array) -> Array:
        length, reach = x_BLD.shape[1], len(kernel_ND) // 2
        padded, product_BLD = np.pad(x_BLD, [(0, 0), (reach, reach), (0, 0)]), np.empty_like(x_BLD)
        for n, kernel_D in enumerate(kernel_ND):
            x_BLD += np.multiply(padded[:, n : n + length], kernel_D, out=product_BLD)
        return x_BLD

    def window_sums(self, x_BL: Array, reach: int) -> Array:
        batch, length = x_BL.shape
        before_BL = np.zeros((batch, length + 1), np.float32)  # sums of all positions before
        np.cumsum(x_BL, axis=1, out=before_BL[:, 1:])
        positions_L = np.arange(length)
        last_L, first_L = np.minimum(positions_L + reach + 1, length), np.maximum(positions_L - reach, 0)
        return before_BL.take(last_L, axis=1) - before_BL.take(first_L, axis=1)

    def distinct(self, ngrams: Iterable[tuple[Array, Array]], weights_BL: Array, buckets: int) -> tuple[Array, Array]:
        """Sorted together with their positions, equal n-grams are neighbours, the one that ends last at the end."""
        length = weights_BL.shape[1]
        bits = length.bit_length()  # of a position
        places = [np.where(whole_BL, buckets_BL, buckets).astype(np.int64) << bits | np.arange(length) for buckets_BL, whole_BL in ngrams]
        places_BN = np.sort(np.concatenate(places, axis=1), axis=1)
        sorted_BN, positions_BN = places_BN >> bits, places_BN & (1 << bits) - 1
        counts_BN = np.diff(sorted_BN, axis=1, append=buckets) > 0
        return np.minimum(sorted_BN, buckets - 1), counts_BN * np.take_along_axis(weights_BL, positions_BN, axis=1)

    def weighted_rows(self, weights_BN: Array, table_RU: Array, rows_BN: Array) -> Array:
        sums_BU = np.zeros((len(rows_BN), table_RU.shape[1]), np.float32)
        for some in blocks(rows_BN.shape[1], len(rows_BN) * table_RU[0].nbytes):
            sums_BU += np.einsum("bn,bnu->bu", weights_BN[:, some], table_RU.take(rows_BN[:, some], axis=0))
        return sums_BU


def _means(x: Array) -> Array:
    """Means over the last axis, which is kept; a product is faster than a mean over a short axis."""
    means: Array = x @ np.full((x.shape[-1], 1), 1.0 / x.shape[-1], dtype=x.dtype)
    return means


def _by_distance(
    scores_BHQM: Array, queries: slice, keys: slice, real_B11M: Array, max_distance: int | None, causal: bool, slopes_H: Array | None
) -> None:
    """Lower the scores of a block by slope and distance, and take away those of keys that are further, later or padding."""
    reach = keys.stop if max_distance is None else max_distance
    _, _, num_queries, num_keys = scores_BHQM.shape
    back_QM = np.arange(queries.start, queries.start + num_queries)[:, None] - np.arange(keys.start, keys.start + num_keys)
    if slopes_H is not None:
        scores_BHQM -= slopes_H[:, None, None] * np.abs(back_QM)
    allowed_QM = (back_QM <= reach) & (back_QM >= (0 if causal else -reach))
    np.copyto(scores_BHQM, LOWEST, where=~(allowed_QM & real_B11M))


def _score_blocks(batch: int, length: int, width: int, max_distance: int | None) -> Iterator[tuple[slice, slice, slice]]:
    """Texts, queries and keys whose attention scores are computed together; each pair of query and key takes ``width`` numbers."""
    reach = length if max_distance is None else min(length, max_distance)
    keys = max(1, min(length, 4 * reach))  # of 2 · reach queries
    rows = max(1, SCORE_BLOCK // max(1, width * length * keys))
    queries = max(1, min(length, 2 * reach, SCORE_BLOCK // (width * keys)))
    for row in range(0, batch, rows):
        for query in range(0, length, queries):
            yield slice(row, row + rows), slice(query, query + queries), slice(max(0, query - reach), query + queries + reach)


def _largest_norm(x_BHLK: Array) -> float:
    """The length of the longest vector: no dot product is larger than the product of two such lengths (Cauchy and Schwarz)."""
    return float(np.einsum("bhlk,bhlk->bhl", x_BHLK, x_BHLK).max(initial=0.0) ** 0.5)
