"""Where compiled code keeps what is the system's in a block's shared memory.

Mental model: from sm_90 on the first KiB of shared memory is not the program's. Code that ptxas makes has an mbarrier
there, and a word of its parity, by which two blocks of a cluster allocate tensor memory together (tcgen05.alloc with
.cta_group::2); the GPU has them ready when the block begins. CUDA 12.9's assembler names them in the symbol table;
later ones put them elsewhere and do not, which was read off their code.
"""

from __future__ import annotations

from gpusim.errors import CompileError
from gpusim.isa.binary.elf import Elf

_SYSTEM_SHARED_BYTES = 0x400
#: Addresses of the mbarrier and of its parity, where no symbols say.
PAIR_ALLOCATION = 0x48, 0x50
_SYMBOL = "__nv_reservedSMEM_tmem_allocation_pipeline_mbarrier"


def pair_allocation(elf: Elf) -> tuple[int, int]:
    """Shared addresses of the mbarrier and of its parity; raises CompileError for ones that cannot be."""
    found = {symbol.name: symbol.value for symbol in elf.symbols if symbol.name.startswith(_SYMBOL)}
    barrier, parity = found.get(_SYMBOL, PAIR_ALLOCATION[0]), found.get(f"{_SYMBOL}_parity", PAIR_ALLOCATION[1])
    if barrier % 8 or parity % 4 or max(barrier, parity) > _SYSTEM_SHARED_BYTES - 8:
        raise CompileError(f"damaged cubin: {_SYMBOL} stands at 0x{barrier:x}, its parity at 0x{parity:x}")
    return barrier, parity


def static_shared(elf: Elf, kernel: str) -> tuple[int, int]:
    """(first address, bytes) of a kernel's static shared memory; its section counts what is the system's."""
    section = elf.named(f".nv.shared.{kernel}")
    base = _SYSTEM_SHARED_BYTES if elf.architecture >= 90 else 0
    return base, max(0, (section.size if section else 0) - base)
