"""What every projection gives: the time of one operator on one GPU, how sure it is, and what it moved and computed.

Mental model: a product, an attention, a collective are projected by different parts; models, energy and reports see
only this.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Projection:
    """One operator, all its launches together.

    ``operator``: a name with its shape; ``gpu``: the description's name; ``seconds``: expected; ``low_seconds``,
    ``high_seconds``: four of five measurements should lie between; ``validated``: whether that interval is known for
    this GPU's generation, dtype and region of shape, and ``reason`` from what; ``limiter``: the busiest unit,
    "latency", "launch" or "power"; ``dtype``: of the operands (:data:`gpusim.tile.machine.OPERANDS`) or "" where
    nothing is multiplied; ``flops``: operations on tensor cores that count, a multiply-add counting two;
    ``executed_flops``: those that they do, masked scores of a tile included (0: as ``flops``), which take energy as
    well; ``vector_flops``: those outside; ``dram_bytes``, ``l2_bytes``: read and written, but of a product's L2 bytes
    those that it loads: the energy of a byte was fitted on these (:mod:`gpusim.energy`), and its writes are in what its
    flops take; ``link_bytes``: sent to other GPUs by one GPU; ``started_blocks``: of attention on tensor cores, whose
    start takes energy.
    """

    operator: str
    gpu: str
    seconds: float
    low_seconds: float
    high_seconds: float
    validated: bool
    reason: str
    limiter: str
    dtype: str = ""
    flops: float = 0.0
    executed_flops: float = 0.0
    vector_flops: float = 0.0
    dram_bytes: float = 0.0
    l2_bytes: float = 0.0
    link_bytes: float = 0.0
    started_blocks: float = 0.0
    launches: int = 1
