"""Networks with layers that no kernel of the suite is of: ``gpusim project`` has them, :func:`networks.launches` does
not.

Mental model: as in ``configs.py``, plain figures with their source.
"""

from __future__ import annotations

from dataclasses import dataclass

from .configs import Decoder, Experts


@dataclass(frozen=True)
class LinearAttention:
    """A gated delta rule in all layers but each ``full_every``-th, which attends: heads of keys and of values, their
    elements, and the tokens of the causal convolution before it."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_width: int
    full_every: int


@dataclass(frozen=True)
class LinearDecoder(Decoder):
    """A decoder with layers of linear attention; ``gates_heads``: what its attention gives is gated by a product of its
    own."""

    linear: LinearAttention | None = None
    gates_heads: bool = True


PROJECTED: dict[str, LinearDecoder] = {
    config.name: config
    for config in (
        LinearDecoder(
            "qwen3_next_80b_a3b",
            "Qwen3-Next-80B-A3B-Instruct config.json (2025) and transformers' modeling_qwen3_next.py",
            48,
            2048,
            16,
            2,
            256,
            5120,
            151_936,
            experts=Experts(512, 10, 512, shared=1),
            normalises_heads=True,
            linear=LinearAttention(
                key_heads=16, value_heads=32, key_dim=128, value_dim=128, conv_width=4, full_every=4
            ),
        ),
    )
}
