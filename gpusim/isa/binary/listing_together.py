"""List the machine code of many kernels with one start of the disassembler, before they are decoded one by one.

Mental model: starting nvdisasm takes a quarter of a second, a kernel some milliseconds. The flat code of all kernels of one
architecture is laid end to end and read as one raw stretch; each kernel's part of the listing is kept where
:mod:`gpusim.isa.binary.listing` looks for it, word for word what the listing of its own file would have been.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from gpusim.errors import CompileError, ToolchainError
from gpusim.isa.binary.cubin import INSTRUCTION_BYTES, KernelCode
from gpusim.isa.binary.disassembler import raw_rows
from gpusim.isa.binary.kernel_texts import is_flat, texts_of_raw
from gpusim.isa.binary.listing import keep_texts, kept_texts_path


def list_together(images: Iterable[KernelCode]) -> int:
    """Keep the texts of many kernels with one start of nvdisasm an architecture; the number of kernels so listed.

    Relocations are applied already in the flat code. Left to be listed alone, without a word: kernels that are known, those of
    whose code the file says more than the code does (calls of the driver, of other kernels, by address or through pointers,
    tables of branch targets), and all if nvdisasm is missing or finds fault with any.
    """
    wanted: dict[int, dict[Path, KernelCode]] = defaultdict(dict)
    for image in images:
        path = kept_texts_path(image)
        if path is not None and is_flat(image) and not path.exists():
            wanted[image.architecture][path] = image
    listed = 0
    for architecture, kernels in wanted.items():
        with contextlib.suppress(CompileError, ToolchainError):
            rows = raw_rows(b"".join(image.code for image in kernels.values()), architecture)
            start = 0
            for path, image in kernels.items():
                count = len(image.code) // INSTRUCTION_BYTES
                texts = texts_of_raw(image, rows[start : start + count], start * INSTRUCTION_BYTES)
                start += count
                if texts is not None:
                    keep_texts(path, texts)
                    listed += 1
    return listed
