"""Where an mbarrier stands for which a warp waits without end, in words.

Mental model: who waits for a parity waits while the phase at hand has it; that phase lacks arrivals, or bytes that are
expected, or more bytes have come than are expected. The word is laid out as :mod:`gpusim.emulator.atomics` says.
"""

from __future__ import annotations

import ctypes

import numpy as np

from gpusim.emulator.poll_words import polled_shared
from gpusim.trace.record import Program

_THREADS, _BYTES = 1 << 20, 1 << 21
#: Where a word has the threads of a phase, and those to come.
_COUNTS = (_THREADS - 1) << 1 | (_THREADS - 1) << 43


def polled_object(state: np.record, program: Program, warp: int, pc: int) -> str:
    """What ``warp``, which polls and stands at instruction ``pc`` of a loop, waits for if that is an mbarrier of its
    own block; else nothing."""
    place = polled_shared(int(state.poll_key[warp]))
    tests = any("SYNCS.PHASECHK" in text for text in program.texts[max(0, pc - 2) : pc + 3])
    if not tests or not 0 <= place <= int(state.shared_bytes) - 4 or int(state.cluster_size) > 1:
        return ""
    word = ctypes.c_uint64.from_address(int(state.shared_host) + (place & ~7)).value
    if word & _COUNTS == 0:  # mbarrier.init leaves threads to come, of which both counts are kept less 2^20
        return f": at byte 0x{place & ~7:x} there is no mbarrier that is initialised (its word is 0x{word:x})"
    parity, waits = word >> 63, word >> 42 & 1
    expected = _THREADS - (word >> 1 & _THREADS - 1)
    missing = 0 if waits else _THREADS - (word >> 43 & _THREADS - 1)
    pending = word >> 21 & _BYTES - 1
    pending -= _BYTES if pending >= _BYTES // 2 else 0
    said = f": the mbarrier at byte 0x{place & ~7:x} is in a phase of parity {parity}, to which {missing} of {expected} arrivals are missing"
    if pending > 0:
        said += f" and {pending} bytes that are expected"
    elif pending < 0:
        said += f", and {-pending} bytes more than are expected have come"
    return f"{said}; the warp waits for that phase to end"
