"""What each operator of a model takes on one GPU, each different one projected once.

Mental model: a model's step has thousands of launches of a dozen shapes; the shapes are the keys of a dictionary of
projections. A sweep hands the same dictionary from plan to plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gpusim.collective.links import Machine
from gpusim.collective.project import project_collective
from gpusim.collective.shape import Collective
from gpusim.energy.power import held_limit
from gpusim.gpus.clock import at_clock
from gpusim.gpus.spec import GpuSpec
from gpusim.project.earlier_attention import EarlierAttention, project_earlier
from gpusim.project.operator import Shape
from gpusim.tile.beside import Shares, shares_beside
from gpusim.tile.library import has_rows, named_kernels
from gpusim.tile.machine import has_products
from gpusim.tile.operators import (
    AttentionOp,
    DrawOp,
    GemmOp,
    MemoryOp,
    MoeOp,
    RecurrentOp,
    SortOp,
    project_attention_op,
    project_draw_op,
    project_gemm_op,
    project_memory_op,
    project_moe_op,
    project_recurrent_op,
    project_sort_op,
)
from gpusim.tile.projection import Projection

_PROJECT: dict[type, Callable[[GpuSpec, Any, float | None], Projection]] = {
    GemmOp: project_gemm_op,
    AttentionOp: project_attention_op,
    MoeOp: project_moe_op,
    MemoryOp: project_memory_op,
    RecurrentOp: project_recurrent_op,
    SortOp: project_sort_op,
    DrawOp: project_draw_op,
}


class Prices:
    """Projections on ``spec``, by shape. ``limit_watts``: another power limit than the board's, of each GPU;
    ``one_clock``: it acts on the mean of a step (:mod:`gpusim.project.one_clock`), not on each operator; in either case
    it has held since before the step, whose GPUs are busy for seconds (``held_watts``), where a launch alone is over
    before; ``share``: of the clock at which energies are known that of ``spec`` is; ``machine``: what is said of links
    beside the GPU's file."""

    def __init__(
        self, spec: GpuSpec, limit_watts: float | None = None, one_clock: bool = False, share: float = 1.0, machine: Machine | None = None,
    ) -> None:  # fmt: skip
        self.spec, self.limit_watts, self.one_clock, self.share = spec, limit_watts, one_clock, share
        self.machine = machine or Machine()
        self.node = self.machine.node(spec)
        self.held_watts = held_limit(spec, limit_watts)
        self._known: dict[Shape, Projection] = {}
        self._beside: dict[tuple[GemmOp, int, float], Shares] = {}
        self._has_bf16 = has_products(spec, "bf16")

    def at_share(self, share: float) -> Prices:
        """The same GPU at a share of its clock, and no limit."""
        return Prices(at_clock(self.spec, share * self.spec.clock_hz), math.inf, share=share, machine=self.machine)

    def of(self, op: Shape) -> Projection:
        """Raises SpecError where the GPU has no such operation, or nothing is known of its generation."""
        if isinstance(op, EarlierAttention):
            op = op.taken_on(self.spec)
        if (
            not self._has_bf16
            and not isinstance(op, Collective | EarlierAttention | DrawOp | MemoryOp | RecurrentOp | SortOp)
            and op.dtype == "bf16"
        ):
            op = replace(op, dtype="fp16")  # what a model keeps in 16 bits
        if isinstance(op, GemmOp) and op.dtype == "nvfp4" and not has_rows(named_kernels(self.spec), f"nvfp4_{op.framework}"):  # fmt: skip
            op = replace(op, framework="")  # of kernels that nobody measured those that are followed
        found = self._known.get(op)
        if found is None:
            if isinstance(op, Collective):
                found = project_collective(self.spec, op, self.node)
            elif isinstance(op, EarlierAttention):
                found = project_earlier(self.spec, op, self._attention)
            else:
                found = _PROJECT[type(op)](self.spec, op, self.held_watts)
            self._known[op] = found
        return found

    def _attention(self, spec: GpuSpec, op: AttentionOp) -> Projection:
        """By the kernels that were measured on ``spec``, another's under that one's own power limit."""
        return project_attention_op(spec, op, self.held_watts if spec is self.spec else held_limit(spec, None))

    def beside(self, op: GemmOp, channels: int, dram_bytes_per_second: float) -> Shares:
        """Of their own speeds, at which ``op`` and a collective go while both run
        (:func:`gpusim.tile.beside.shares_beside`)."""
        key = (op, channels, dram_bytes_per_second)
        if key not in self._beside:
            self._beside[key] = shares_beside(self.spec, op, channels, dram_bytes_per_second)
        return self._beside[key]
