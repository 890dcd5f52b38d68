"""Chunks kept in memory: as they are while they are few, coded and deflated beyond that.

Mental model: a list to which a capture appends and from which a simulation reads in order, as often as it
likes. The first :data:`PLAIN_BYTES` of chunks stay arrays, so that small launches cost nothing; what comes
after is coded as in a trace file, and decoded again whenever it is read.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from gpusim.trace.coding import decode_chunk, encode_chunk
from gpusim.trace.layout import Chunk, Program

#: Chunks up to here are kept as arrays.
PLAIN_BYTES = 128 << 20
#: The fastest level: what is left after coding is nearly all zeros, or nearly all noise.
DEFLATE_LEVEL = 1


class KeptChunks:
    """An append-only sequence of the chunks of one launch."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._entries: list[Chunk | bytes] = []
        self._plain = 0
        self.warp_instructions = 0

    def append(self, chunk: Chunk) -> None:
        """Keep one more chunk."""
        self.warp_instructions += chunk.warp_instructions
        self._plain += chunk.nbytes
        if self._plain <= PLAIN_BYTES:
            self._entries.append(chunk)
        else:
            self._entries.append(zlib.compress(encode_chunk(chunk, self._program), DEFLATE_LEVEL))

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Chunk]:
        for entry in self._entries:
            yield entry if isinstance(entry, Chunk) else decode_chunk(zlib.decompress(entry), self._program)
