"""What a residual convolutional network launches: ResNet-50's convolutions, pools and final product.

Mental model: stages of bottleneck blocks; batch normalisation is folded into the weights, as inference engines
do, so that what is left between convolutions is the sum with the shortcut and a ReLU.
"""

from __future__ import annotations

from collections.abc import Iterator

from .configs import Residual, Stage
from .operators import NetworkLaunch, in_float32, matmul


def residual_launches(config: Residual, batch: int, precision: str) -> Iterator[NetworkLaunch]:
    """Launches of a forward pass over ``batch`` images; convolutions are float32 in the suite."""
    half = config.image // 2
    yield _convolution("stem", batch, 3, config.image, config.stem, 7, stride=2, padding=3, precision=precision)
    pool = {"planes": batch * config.stem, "height": half, "width": half, "window": 3, "stride": 2, "padding": 1}
    yield NetworkLaunch("stem", "pool", "maxpool2d", pool)
    channels = config.stem
    for number, stage in enumerate(config.stages, start=2):
        yield from _stage(f"conv{number}_x", batch, channels, stage, precision)
        channels = stage.outer
    size = config.stages[-1].size
    pool = {"planes": batch * channels, "height": size, "width": size, "window": size, "stride": 1, "padding": 0}
    yield NetworkLaunch("head", "pool", "avgpool2d", pool)
    yield matmul("head", "classes", batch, config.classes, channels, precision)


def _stage(layer: str, batch: int, channels: int, stage: Stage, precision: str) -> Iterator[NetworkLaunch]:
    before = stage.size * stage.stride
    yield _convolution(layer, batch, channels, before, stage.inner, 1, precision=precision)
    yield _convolution(
        layer, batch, stage.inner, before, stage.inner, 3, stride=stage.stride, padding=1, precision=precision
    )
    yield _convolution(layer, batch, stage.inner, stage.size, stage.outer, 1, precision=precision)
    yield _convolution(
        layer, batch, channels, before, stage.outer, 1, stride=stage.stride, operator="shortcut", precision=precision
    )
    rest = stage.blocks - 1
    yield _convolution(layer, batch, stage.outer, stage.size, stage.inner, 1, precision=precision).times(rest)
    yield _convolution(layer, batch, stage.inner, stage.size, stage.inner, 3, padding=1, precision=precision).times(
        rest
    )
    yield _convolution(layer, batch, stage.inner, stage.size, stage.outer, 1, precision=precision).times(rest)
    shape = {"rows": batch * stage.outer, "columns": stage.size**2, "activation": "relu", "dtype": "float32"}
    yield NetworkLaunch(layer, "sum and ReLU", "elementwise_fused", shape, stage.blocks)


def _convolution(
    layer: str,
    batch: int,
    channels: int,
    size: int,
    filters: int,
    filter_size: int,
    *,
    precision: str,
    stride: int = 1,
    padding: int = 0,
    operator: str = "",
) -> NetworkLaunch:
    shape = {
        "batch": batch,
        "channels": channels,
        "size": size,
        "filters": filters,
        "filter_size": filter_size,
        "stride": stride,
        "padding": padding,
    }
    name = operator or f"convolution {filter_size} x {filter_size}"
    return NetworkLaunch(layer, name, "conv2d_implicit_gemm", shape, 1, in_float32(precision))
