"""The sizes of a decoder-only language model, as projections read them, from the workloads' table or a file.

Mental model: plain figures; what a layer launches follows from them. The workloads' own values are read by their
fields' names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Experts:
    """``routed`` experts of ``hidden`` columns, ``per_token`` of them a token, beside ``shared`` ones; the first
    ``dense_layers`` layers have none."""

    routed: int
    per_token: int
    hidden: int
    shared: int = 0
    dense_layers: int = 0


@dataclass(frozen=True)
class LatentAttention:
    """Ranks of the latents of queries and keys; of a head's key ``plain_dim`` elements of its own and ``rotary_dim``
    that all share."""

    query_rank: int
    key_rank: int
    plain_dim: int
    rotary_dim: int
    value_dim: int


@dataclass(frozen=True)
class LinearAttention:
    """Layers with a gated delta rule in place of attention, all but each ``full_every``-th: heads of keys (and queries)
    and of values, their elements, and the tokens of the causal convolution before them."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_width: int
    full_every: int

    @property
    def keys(self) -> int:
        """Elements of a token's keys, and of its queries."""
        return self.key_heads * self.key_dim

    @property
    def values(self) -> int:
        """Elements of a token's values."""
        return self.value_heads * self.value_dim

    @property
    def channels(self) -> int:
        """Of the convolution: queries, keys and values."""
        return 2 * self.keys + self.values


@dataclass(frozen=True)
class Decoder:
    """``hidden``: width; ``feed_forward``: columns of the gated block; ``window``: tokens that every second layer
    attends to (0: all);
    ``gated``: the feed-forward block has a gate beside its first product; ``gates_heads``: what attention gives is
    gated by a product of its own;
    ``sums_once``: attention and the feed-forward block read the same values and are added up before GPUs that share the
    layer sum them, once for both."""

    name: str
    source: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    vocabulary: int
    experts: Experts | None = None
    latent: LatentAttention | None = None
    normalises_heads: bool = False
    window: int = 0
    gated: bool = True
    linear: LinearAttention | None = None
    gates_heads: bool = False
    sums_once: bool = False

    @property
    def ways_up(self) -> int:
        """Products from the width to the feed-forward columns."""
        return 2 if self.gated else 1


def decoder_of_fields(values: Mapping[str, Any]) -> Decoder:
    """From the fields of a value of the workloads' table (``dataclasses.asdict``)."""
    parts = {"experts": Experts, "latent": LatentAttention, "linear": LinearAttention}
    plain = {name: value for name, value in values.items() if name not in parts}
    return Decoder(**plain, **{name: make(**values[name]) for name, make in parts.items() if values.get(name)})
