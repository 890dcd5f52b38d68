"""A trace as one value: program, launch and chunks, in memory or streamed from a file.

Mental model: the pieces are described in :mod:`gpusim.trace.layout` (re-exported here, so that one
import serves), the container on disk in :mod:`gpusim.trace.file`; this file joins the two into the
:class:`Trace` that capture returns and the engine takes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gpusim.trace import file
from gpusim.trace.kept import KeptChunks
from gpusim.trace.layout import (
    ACCESS,
    BULK,
    BULK_KINDS,
    INSTRUCTION,
    NO_BARRIER,
    POLL,
    RUN,
    SCATTERED,
    SIGNAL,
    TRACE_VERSION,
    WARP,
    WARP_LANES,
    Chunk,
    Flag,
    Launch,
    MatrixType,
    MemoryKind,
    PipeClass,
    Program,
    Space,
)
from gpusim.trace.parts import whole_blocks
from gpusim.trace.regular import RegularBlocks
from gpusim.trace.synthesis import RegularChunks

__all__ = [
    "ACCESS",
    "BULK",
    "BULK_KINDS",
    "INSTRUCTION",
    "NO_BARRIER",
    "POLL",
    "RUN",
    "SCATTERED",
    "SIGNAL",
    "TRACE_VERSION",
    "WARP",
    "WARP_LANES",
    "Chunk",
    "Flag",
    "Launch",
    "MatrixType",
    "MemoryKind",
    "PipeClass",
    "Program",
    "Space",
    "Trace",
]


@dataclass
class Trace:
    """One captured launch: its program, its launch facts, and its chunks in block order.

    ``chunk_list`` holds the chunks as they were recorded, parts of long blocks included: a list, a
    :class:`gpusim.trace.kept.KeptChunks`, or for a trace opened from a file a
    :class:`gpusim.trace.file.StoredChunks`, which reads and checks them one by one. ``findings`` is what a checked
    capture found wrong (:class:`gpusim.sanitizer.findings.Finding`); no file holds it. ``regular``: a few blocks from
    which ``chunk_list`` makes the others, where only these were run; ``why_whole`` says why all were run although few
    were asked for. ``without_data``: all were run for their paths and addresses alone, bulk copies and products of warp
    groups left out.
    """

    program: Program
    launch: Launch
    chunk_list: Iterable[Chunk] = field(default_factory=list)
    findings: tuple = ()
    regular: RegularBlocks | None = None
    why_whole: str = ""
    without_data: bool = False

    def __repr__(self) -> str:
        grid, block = ("x".join(map(str, shape)) for shape in (self.launch.grid, self.launch.block))
        instructions = len(self.program.instructions)
        return f"<Trace of {self.launch.kernel}: grid {grid}, block {block}, for {self.launch.gpu or 'no named GPU'}, {instructions} instructions>"

    @property
    def has_results(self) -> bool:
        """Whether the capture left the launch's results in its arrays."""
        return self.regular is None and not self.without_data

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks in block order, each of whole blocks; may be called again to start over."""
        return whole_blocks(self.chunk_list)

    @property
    def warp_instructions(self) -> int:
        """Warp instructions executed by the whole launch (``smsp__inst_executed.sum``)."""
        known = getattr(self.chunk_list, "warp_instructions", None)
        return sum(chunk.warp_instructions for chunk in self.chunk_list) if known is None else known

    @classmethod
    def collect(cls, program: Program, launch: Launch, chunks: Iterable[Chunk]) -> Trace:
        """A trace that keeps ``chunks`` in memory, pulled one by one: as they are while they are few, coded
        beyond that."""
        kept = KeptChunks(program)
        for chunk in chunks:
            kept.append(chunk)
        return cls(program, launch, kept)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to ``path`` atomically: afterwards it holds the whole trace or what it held
        before. Raises TraceFormatError for a trace that is inconsistent in itself, OSError from the
        file system."""
        if self.regular is not None:
            file.write_regular(path, self.program, self.launch, self.regular)
            return
        file.write(path, self.program, self.launch, self.chunk_list)

    @classmethod
    def of_regular(cls, program: Program, launch: Launch, regular: RegularBlocks) -> Trace:
        """The trace of a launch whose blocks follow from a few."""
        return cls(program, launch, RegularChunks(regular, launch.warps_per_block), regular=regular)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Open a trace file; chunks are read and checked one by one as they are asked for. Raises
        TraceFormatError (here or while iterating) when the file is damaged or not a trace."""
        program, launch, content = file.read(path)
        if isinstance(content, RegularBlocks):
            return cls.of_regular(program, launch, content)
        return cls(program, launch, content)
