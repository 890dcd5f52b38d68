"""What an entry of the kernel suite is: a kernel, its shape axes, and how to make and check a case.

Mental model: a :class:`Kernel` is a family of workloads; ``make(**shape)`` picks one member and
returns a :class:`Case`: arrays filled, launches listed in order, and a check that compares what the
launches left in the arrays with NumPy. A case knows nothing about who runs it: the same launches go
to a capture on a CPU or to a real GPU. Arrays are shared between the launches of a case, so whoever
runs them must keep an array's device address from the first launch to the last (``pointer_chase``
stores addresses in one launch and follows them in the next).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral  # NumPy's too, without NumPy: a slip in a shape is told before that is loaded
from typing import Any


@dataclass(frozen=True)
class Launch:
    """One kernel launch: ``kernel[grid, block, stream, shared_bytes](*args)``.

    ``block`` None is the one that the kernel's language fixes when it compiles; ``grid`` may then be a function of the
    kernel's compile-time parameters. ``shared_bytes`` is dynamic shared memory a block. ``timed=False`` marks
    preparation: it fills data or warms caches, must run (before the timed launches, in order), and is not measured.
    """

    kernel: Any
    grid: tuple[int, ...] | Callable[[Any], tuple[int, ...]]
    block: tuple[int, ...] | None
    args: tuple
    shared_bytes: int = 0
    timed: bool = True


@dataclass(frozen=True)
class Case:
    """A shape made concrete.

    ``check()`` raises AssertionError unless the arrays in the launches' arguments hold NumPy's
    result; call it after all launches ran, once each. ``work`` counts what the *timed* launches do,
    as the kernel's author counts it (not as a cache sees it): ``bytes_read``, ``bytes_written``,
    ``flops``, ``loads`` ... A rate is one of these over the timed launches' time.
    """

    launches: tuple[Launch, ...]
    check: Callable[[], None]
    work: dict[str, float]


@dataclass(frozen=True)
class Kernel:
    """An entry of the suite.

    ``axes`` names every shape parameter with values worth trying; ``default`` is a shape of ordinary
    size, ``small`` a tiny one for tests (under 50,000 warp instructions). ``make(**shape, seed=0)``
    takes all axes by keyword and raises ValueError for a shape that makes no sense.
    """

    name: str
    purpose: str
    axes: dict[str, tuple]
    default: dict[str, Any]
    small: dict[str, Any]
    make: Callable[..., Case]


def blocks_for(threads: int, block_threads: int) -> int:
    """Blocks of ``block_threads`` that cover ``threads`` threads, at least one."""
    return max(1, -(-threads // block_threads))


def require_positive(**values: int) -> None:
    """Raise ValueError naming the first value that is not a positive whole number."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value <= 0:
            raise ValueError(f"{name} must be a positive whole number, not {value!r}")


def require_block(block_threads: int, multiple: int = 1) -> None:
    """Raise ValueError unless a block of that many threads exists (and is a ``multiple``)."""
    require_positive(block_threads=block_threads)
    if block_threads > 1024 or block_threads % multiple:
        rule = f"a multiple of {multiple} up to 1024" if multiple > 1 else "at most 1024"
        raise ValueError(f"block_threads must be {rule}, not {block_threads}")


def require_choice(name: str, value, choices) -> None:
    """Raise ValueError unless ``value`` is one of ``choices``."""
    if value not in tuple(choices):
        raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}, not {value!r}")


def require_multiples(**pairs: tuple[int, int]) -> None:
    """Raise ValueError naming the first (value, divisor) that does not divide, or is not positive."""
    for name, (value, divisor) in pairs.items():
        if value <= 0 or value % divisor:
            raise ValueError(f"{name} must be a positive multiple of {divisor}, not {value}")


def shared_padding_bytes(blocks_per_sm: int, shared_bytes_per_sm: int, reserved_bytes: int = 1024) -> int:
    """Dynamic shared bytes a block so that exactly ``blocks_per_sm`` blocks fit on an SM.

    It is the largest amount with which they still fit: the SM's ``shared_bytes_per_sm`` divided by
    the blocks, rounded down to the allocation unit of 128 bytes, less the ``reserved_bytes`` that
    the system takes of every block (1 KiB since compute capability 8.0, CUDA programming guide).
    One block alone gets the whole SM, which is the documented per-block maximum (227 KiB of 228).
    Raises ValueError where no padding has that effect.
    """
    require_positive(blocks_per_sm=blocks_per_sm, shared_bytes_per_sm=shared_bytes_per_sm)
    allocation = shared_bytes_per_sm // blocks_per_sm // 128 * 128
    if allocation <= reserved_bytes or shared_bytes_per_sm // allocation != blocks_per_sm:
        raise ValueError(
            f"no padding makes exactly {blocks_per_sm} blocks fit on an SM "
            f"with {shared_bytes_per_sm} bytes of shared memory"
        )
    return allocation - reserved_bytes
