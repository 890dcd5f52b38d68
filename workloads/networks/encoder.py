"""What encoders launch: BERT, a diffusion transformer, and Whisper with its decoder beside.

Mental model: equal bidirectional layers between a beginning (tables of tokens, patches or a stem of convolutions) and
an end (a pooler, a projection back to patches, or a decoder) that differ from network to network; each exists where its
size in the configuration is not zero. Elementwise steps between that frameworks fuse into their neighbours (positions
that are added, gates, shifts) are no launches of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import operators as op
from .configs import Encoder
from .operators import NetworkLaunch
from .transformer import Step

#: Tokens of its own past that a decoder beside an encoder attends to while it begins: half of Whisper's context of 448,
#: to which it keeps what it has said before (Radford et al., 2022, section 2.3).
PAST = 224
#: A one-dimensional convolution as a product: so many neighbours side by side.
STEM_WIDTH = 3


def encoder_launches(config: Encoder, step: Step) -> Iterator[NetworkLaunch]:
    """Launches of an encoder's forward pass over ``step.rows`` tokens, and for a network with a decoder beside it those
    of its first step for each sequence. A decode is one later step of that decoder, with ``step.sequence`` tokens in
    its own cache; other encoders have none (ValueError)."""
    if step.phase == "decode":
        if not config.decoder_layers:
            raise ValueError(f"{config.name} has no decode phase of its own")
        yield from _decoding_step(config, step, past=step.sequence, audio=config.tokens)
        return
    yield from _beginning(config, step)
    for launch in _layer(config, step):
        yield launch.times(config.layers)
    if config.decoder_layers:
        yield op.layernorm("encoder", step.rows, config.hidden, step.precision)
        inner = step.share("heads", config.heads) * config.head_dim
        audio = op.matmul("decoder", "audio keys, values", step.rows, 2 * inner, config.hidden, step.precision)
        yield audio.times(config.decoder_layers)
        yield from _decoding_step(config, step, past=PAST, audio=step.sequence)
    yield from _end(config, step)


def _beginning(config: Encoder, step: Step) -> Iterator[NetworkLaunch]:
    """From what comes in to the first layer's input."""
    rows, hidden, precision = step.rows, config.hidden, step.precision
    if config.mel_bins:
        note = f"a convolution over {STEM_WIDTH} frames as a product"
        for steps, channels in ((2 * rows, config.mel_bins), (rows, hidden)):
            yield op.matmul("stem", "convolution", steps, hidden, STEM_WIDTH * channels, precision, note=note)
            yield op.gelu("stem", steps, hidden, precision, "none")
        return
    if config.patch_values:
        yield op.matmul("embedding", "patches", rows, hidden, config.patch_values, precision)
        yield op.matmul("embedding", "time step, first", step.batch, hidden, config.frequencies, precision)
        yield op.matmul("embedding", "time step, second", step.batch, hidden, hidden, precision)
        yield op.embedding("embedding", step.batch, config.classes, hidden, precision)
    if config.vocabulary:
        yield op.embedding("embedding", rows, config.vocabulary, hidden, precision)
    for table, entries in (("positions", config.positions), ("segments", config.segments)):
        if entries:
            yield op.embedding("embedding", rows, entries, hidden, precision, operator=table, skew=0.0)
    if config.positions:
        yield op.layernorm("embedding", rows, hidden, precision)


def _end(config: Encoder, step: Step) -> Iterator[NetworkLaunch]:
    """From the last layer's output to what goes out, where no decoder takes it."""
    hidden, precision = config.hidden, step.precision
    if config.pooled:
        yield op.matmul("head", "pooler", step.batch, hidden, hidden, precision)
    if config.patch_values:
        yield op.matmul("head", "modulation", step.batch, 2 * hidden, hidden, precision)
        yield op.layernorm("head", step.rows, hidden, precision)
        # Noise and its variance, for each value of a patch.
        yield op.matmul("head", "patches", step.rows, 2 * config.patch_values, hidden, precision)


def _layer(config: Encoder, step: Step) -> Iterator[NetworkLaunch]:
    heads, rows, precision = step.share("heads", config.heads), step.rows, step.precision
    width = step.share("feed-forward columns", config.feed_forward)
    if config.modulated:
        yield op.matmul("encoder", "modulation", step.batch, 6 * config.hidden, config.hidden, precision)
    yield op.layernorm("encoder", rows, config.hidden, precision)
    yield op.matmul("encoder", "queries, keys, values", rows, 3 * heads * config.head_dim, config.hidden, precision)
    yield op.prefill_attention("encoder", step.batch, heads, step.sequence, config.head_dim, precision, causal=False)
    yield op.matmul("encoder", "output", rows, config.hidden, heads * config.head_dim, precision)
    yield op.layernorm("encoder", rows, config.hidden, precision)
    yield op.matmul("encoder", "up", rows, width, config.hidden, precision)
    yield op.gelu("encoder", rows, width, precision, "tanh" if config.modulated else "none")
    yield op.matmul("encoder", "down", rows, config.hidden, width, precision)


def _decoding_step(config: Encoder, step: Step, *, past: int, audio: int) -> Iterator[NetworkLaunch]:
    """One token of each sequence through the decoder, which attends to ``past`` tokens of its own and to ``audio``
    positions of the encoder's output."""
    hidden, precision, batch = config.hidden, step.precision, step.batch
    yield op.embedding("decoder", batch, config.vocabulary, hidden, precision)
    for launch in _cross_layer(config, step, past, audio):
        yield launch.times(config.decoder_layers)
    yield op.layernorm("head", batch, hidden, precision)
    share = -(-config.vocabulary // step.tensor_parallel)
    yield op.matmul("head", "logits", batch, share, hidden, op.activations(precision))
    yield NetworkLaunch("head", "sampling", "sample_gumbel", {"rows": batch, "vocabulary": config.vocabulary})


def _cross_layer(config: Encoder, step: Step, past: int, audio: int) -> Iterator[NetworkLaunch]:
    heads, rows, precision, hidden = step.share("heads", config.heads), step.batch, step.precision, config.hidden
    inner, width = heads * config.head_dim, step.share("feed-forward columns", config.feed_forward)
    for operator, columns, context in (("own past", 3 * inner, past), ("audio", inner, audio)):
        yield op.layernorm("decoder", rows, hidden, precision)
        yield op.matmul("decoder", f"queries ({operator})", rows, columns, hidden, precision)
        yield op.decode_attention("decoder", rows, context, heads, heads, config.head_dim, precision, note=operator)
        yield op.matmul("decoder", f"output ({operator})", rows, hidden, inner, precision)
    yield op.layernorm("decoder", rows, hidden, precision)
    yield op.matmul("decoder", "up", rows, width, hidden, precision)
    yield op.gelu("decoder", rows, width, precision, "none")
    yield op.matmul("decoder", "down", rows, hidden, width, precision)
