"""The first blocks of a launch: its chunks, cut off behind a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpusim.trace.record import Chunk, Trace


@dataclass(frozen=True)
class FirstBlocks:
    """The whole-block chunks of ``trace`` up to block ``blocks`` (excluded); may be read again and again."""

    trace: Trace
    blocks: int

    def __iter__(self) -> Iterator[Chunk]:
        for chunk in self.trace.chunks():
            left = self.blocks - chunk.first_block
            if left >= chunk.blocks:
                yield chunk
            elif left > 0:
                warps = left * self.trace.launch.warps_per_block
                yield replace(chunk, blocks=left, warps=chunk.warps[:warps])
            if left <= chunk.blocks:
                return
