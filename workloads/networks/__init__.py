"""Shapes of real networks: which kernels of the suite a network launches, with which shapes, how often.

Mental model: :data:`CONFIGS` holds the sizes with their sources; :func:`launches` unrolls one forward pass.

    launches("llama3_8b", phase="decode", batch=8, sequence=2048, tensor_parallel=2, precision="float16")

Imports neither gpusim nor a kernel: a launch names its kernel.
"""

from __future__ import annotations

from .configs import CONFIGS, Decoder, Residual
from .encoder import PAST, encoder_launches
from .operators import PRECISIONS, NetworkLaunch
from .projected import PROJECTED
from .residual import residual_launches
from .transformer import PHASES, Step, decoder_launches

__all__ = ["CONFIGS", "PHASES", "PRECISIONS", "PROJECTED", "NetworkLaunch", "launches"]


def launches(
    network: str,
    *,
    phase: str = "prefill",
    batch: int = 1,
    sequence: int = 0,
    tensor_parallel: int = 1,
    precision: str = "float16",
) -> tuple[NetworkLaunch, ...]:
    """The launches of one forward pass in order, equal ones of equal layers as one with its ``count``.

    ``sequence``: tokens of each sequence (0: the network's usual length, 2,048 for a decoder); in a decode, those in
    the cache. Encoders without a decoder and convolutional networks have no decode. Raises ValueError for a network,
    phase, precision or split that does not exist.
    """
    if network in PROJECTED:
        raise ValueError(
            f"{network} has layers that the suite has no kernels of; `gpusim project {network}` has its times"
        )
    if network not in CONFIGS:
        raise ValueError(f"no network is called {network!r}; there are {', '.join(CONFIGS)}")
    config = CONFIGS[network]
    if isinstance(config, Residual):
        if phase != "prefill" or tensor_parallel != 1:
            raise ValueError(f"{network} has no decode and is not split over GPUs")
        if sequence:
            raise ValueError(f"{network} works on images of {config.image} x {config.image}: it takes no sequence")
        if batch < 1 or precision not in PRECISIONS:
            raise ValueError(f"batch must be at least 1 and precision one of {', '.join(PRECISIONS)}")
        return tuple(residual_launches(config, batch, precision))
    if isinstance(config, Decoder):
        return tuple(decoder_launches(config, Step(phase, batch, sequence or 2048, tensor_parallel, precision)))
    usual = PAST if phase == "decode" else config.tokens
    return tuple(encoder_launches(config, Step(phase, batch, sequence or usual, tensor_parallel, precision)))
