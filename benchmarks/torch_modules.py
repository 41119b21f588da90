"""Attention and an encoder as users of torch write them, on its own attention."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    """Self-attention: one projection for queries, keys and values, and one of what the heads mix."""

    def __init__(self, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.heads, self.projections, self.output = heads, nn.Linear(width, 3 * heads * head_width), nn.Linear(heads * head_width, width)

    def forward(self, x: Any, _: Any = None, key_mask: Any = None) -> Any:
        """Of (B, L, D) the same shape; ``key_mask`` (B, L) is True at real positions."""
        heads = self.projections(x).view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*heads, attn_mask=None if key_mask is None else key_mask[:, None, None])
        return self.output(mixed.transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    """Embeddings, blocks with a normalization after each sum, the maximum over real positions, a logit."""

    def __init__(self, sizes: dict[str, int]) -> None:
        super().__init__()
        width, inner = sizes["width"], sizes["feed_forward"]
        self.tokens, self.positions = nn.Embedding(sizes["vocabulary"], width), nn.Embedding(sizes["length"], width)
        self.attention = nn.ModuleList(Attention(width, sizes["heads"], sizes["head_width"]) for _ in range(sizes["blocks"]))
        self.feed_forward = nn.ModuleList(
            nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width)) for _ in range(sizes["blocks"])
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * sizes["blocks"]))
        self.last = nn.Linear(width, 1)

    def forward(self, ids: Any) -> Any:
        """Logits (B, 1) of token ids (B, L)."""
        real, x = ids != 0, self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for attention, feed_forward, first, second in zip(
            self.attention, self.feed_forward, self.norms[::2], self.norms[1::2], strict=True
        ):
            x = first(x + attention(x, key_mask=real))
            x = second(x + feed_forward(x))
        return self.last(x.masked_fill(~real[..., None], -torch.inf).amax(1))


def training_step(sizes: dict[str, int], ids: Any, labels: Any, device: str) -> Callable[[], Any]:
    """A step of RMSprop in mixed precision on the same texts (B, L), as often as it is called."""
    model = Encoder(sizes).to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    ids, labels = torch.as_tensor(ids, device=device), torch.as_tensor(labels, device=device)

    def step() -> None:
        with torch.autocast(device, torch.bfloat16):
            logits = model(ids)
        functional.binary_cross_entropy_with_logits(logits.float(), labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
