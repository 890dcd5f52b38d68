"""Count which rows of the instruction table run while tests run; switched on by ``GPUSIM_COUNT_ROWS=FOLDER``.

Mental model: a row is exercised when an instruction that it serves is executed by a captured kernel (the recorded
path says so) or by the one-instruction harness. Each test process leaves one JSON file in the folder: form -> how
many warps (or harness calls) executed it. ``tools/rows.py FOLDER`` lists the rows that no process reached.
"""

from __future__ import annotations

import atexit
import json
import os
from collections import Counter
from pathlib import Path

import numpy as np

VARIABLE = "GPUSIM_COUNT_ROWS"


def install(folder: Path) -> None:
    """Count in this process from now on; the file is written when it ends."""
    import arith_harness

    from gpusim.emulator.emulation import Emulation
    from gpusim.isa.binary.decode import parse_instruction
    from gpusim.isa.survey import form_of

    counts: Counter[str] = Counter()
    run, execute = Emulation.run, arith_harness.execute

    def counted_run(emulation, listeners=()):
        instructions = emulation.prepared.instructions
        edges = np.zeros(len(emulation.program.instructions) + 1, np.int64)
        try:
            for chunk in run(emulation, listeners):
                np.add.at(edges, chunk.runs["first"], 1)
                np.add.at(edges, chunk.runs["first"] + chunk.runs["count"], -1)
                yield chunk
        finally:
            for instruction, times in zip(instructions, np.cumsum(edges), strict=False):
                if times:
                    counts[form_of(instruction)] += int(times)

    def counted_execute(text, *args, **kwargs):
        opcode, _, operands = text.split(" ", 1)[1].partition(" ") if text.startswith("@") else text.partition(" ")
        counts[form_of(parse_instruction(0, "", opcode, operands, 0))] += 1
        return execute(text, *args, **kwargs)

    def write():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{os.getpid()}.json").write_text(json.dumps(counts))

    Emulation.run, arith_harness.execute = counted_run, counted_execute
    atexit.register(write)
