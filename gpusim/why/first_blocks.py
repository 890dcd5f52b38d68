"""The first blocks of a launch: its chunks, cut off behind a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpusim.trace.record import Chunk, Trace


@dataclass(frozen=True)
class FirstBlocks:
    """The chunks of ``trace`` up to block ``blocks`` (excluded); may be read again and again."""

    trace: Trace
    blocks: int

    def __iter__(self) -> Iterator[Chunk]:
        for chunk in self.trace.chunk_list:
            beyond = max(0, chunk.first_block + chunk.blocks - self.blocks)
            if beyond:
                kept = chunk.blocks - beyond
                warps = chunk.warps[: kept * self.trace.launch.warps_per_block]
                chunk = replace(chunk, blocks=kept, warps=warps, open_blocks=max(0, chunk.open_blocks - beyond))
            if len(chunk.signals) and self.blocks < self.trace.launch.blocks:
                chunk = replace(
                    chunk, signals=chunk.signals[:0]
                )  # others of its blocks may be waited for: nobody waits
            yield chunk
            if chunk.first_block + chunk.blocks - chunk.open_blocks >= self.blocks:
                return
