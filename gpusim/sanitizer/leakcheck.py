"""What a kernel has taken from the device heap and not given back, as findings.

Mental model: ``malloc`` in a kernel takes from a heap, which in a capture is the launch's own and in a program lasts as
long as the context; what a launch has allocated and nobody has freed at the end, of the launch or of the program, is a
leak, one finding for each place that allocates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpusim.emulator.faults import place_of
from gpusim.emulator.listeners import HeapBlock, Listener
from gpusim.sanitizer.findings import Finding, block_index, thread_index
from gpusim.trace.record import Launch, Program


class LeakCheck(Listener):
    """Collects what one launch leaves allocated."""

    def __init__(self, program: Program, launch: Launch):
        self.program, self.launch = program, launch
        self._left: list[HeapBlock] = []
        self._tensor_memory: list[Finding] = []

    def heap_left(self, blocks: Sequence[HeapBlock]) -> None:
        self._left += blocks

    def tensor_memory_left(self, blocks: int, first: int, columns: int) -> None:
        texts = self.program.texts
        place = next((i for i, text in enumerate(texts) if "UTCATOMSWS" in text and "FIND_AND_SET" in text), -1)
        self._tensor_memory.append(
            Finding(
                "memcheck",
                f"Leaked {columns} columns of tensor memory",
                blocks,
                block_index(self.launch, first),
                (0, 0, 0),
                place_of(self.program, place),
                detail="tcgen05.dealloc has to give back all before the kernel ends; on a GPU later kernels lack it",
            )
        )

    def findings(self, held: Callable[[HeapBlock], bool] = lambda block: True) -> list[Finding]:
        """A finding for each place that has allocated what is left and still ``held``: ``count`` blocks, that of the
        first thread described; and one for tensor memory."""
        places: dict[int, list[HeapBlock]] = {}
        for block in self._left:
            if held(block):
                places.setdefault(block.instruction, []).append(block)
        return [*(self._finding(blocks) for blocks in places.values()), *self._tensor_memory]

    def _finding(self, blocks: list[HeapBlock]) -> Finding:
        first = blocks[0]
        return Finding(
            "memcheck",
            f"Leaked {sum(block.size for block in blocks)} bytes of the device heap",
            len(blocks),
            block_index(self.launch, first.block),
            thread_index(self.launch, first.thread),
            place_of(self.program, first.instruction),
            detail=f"the first: {first.size} bytes at 0x{first.address:x}",
        )
