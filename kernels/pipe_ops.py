"""The instructions that the pipe micro-benchmarks chain, each with a NumPy model of one step.

Mental model: an :class:`Op` is one PTX statement (see :mod:`.ptx` for its operands) that ptxas turns into the
named machine instruction, together with ``step(x, older, a, b)``, which computes the same on NumPy
arrays. Operands are chosen so that a chain of any length stays in range: linear recurrences with a
factor below one, words under a mask, functions with an attracting fixed point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import types

LANES = 32
_SINGLE, _DOUBLE, _WORD, _LONG = types.float32, types.float64, types.uint32, types.uint64


@dataclass(frozen=True)
class Op:
    """One chained instruction.

    ``machine``: the SASS that the steps become on sm_90. ptxas deals out a step that two pipes can run
    to both in turn (integer additions, half-precision FMAs), or needs two instructions for it (sine).
    ``a``, ``b``: the operands of every step. ``tolerance``: the relative error of the result that the
    check admits (0: bit by bit), ``absolute_tolerance`` the absolute one besides, for a sine near zero, whose
    error the PTX ISA bounds absolutely. ``halves``: a word holds two half-precision numbers.
    """

    ptx: str
    machine: tuple[str, ...]
    kind: object
    step: Callable[..., np.ndarray]
    a: float
    b: float
    tolerance: float = 0.0
    absolute_tolerance: float = 0.0
    halves: bool = False

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(str(self.kind))

    def starts(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Start values of as many chains: any words, or numbers from 0.5 to 9.5 (halves: 0 to 1)."""
        if self.halves:
            return rng.random((*shape[:-1], 2 * shape[-1]), np.float32).astype(np.float16).view(np.uint32)
        if self.kind is _WORD or self.kind is _LONG:
            return rng.integers(1, np.iinfo(self.dtype).max, shape, self.dtype, endpoint=True)
        return (0.5 + 9 * rng.random(shape)).astype(self.dtype)

    def advance(self, x: np.ndarray, steps: int) -> np.ndarray:
        """What a chain of ``steps`` copies makes of ``x``."""
        a, b = self.dtype.type(self.a), self.dtype.type(self.b)
        older = np.full_like(x, a)
        for _ in range(steps):
            x, older = self.step(x, older, a, b), x
        return x


def _words(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A step on 32-bit words, computed in 64 bits and cut."""

    def step(x, older, a, b):
        wide = function(*(np.asarray(v).astype(np.int64) & 0xFFFFFFFF for v in (x, older, a, b)))
        return (wide & 0xFFFFFFFF).astype(np.uint32)

    return step


def _half(words):
    """The half-precision number in the low 16 bits, in double precision."""
    return (words & 0xFFFF).astype(np.uint16).view(np.float16).astype(np.float64)


def _halves(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A step on words of two half-precision numbers. In double precision a product of two halves plus a
    third is exact, so that the result is rounded once."""

    def step(x, older, a, b):
        pairs = np.stack([_half(x), _half(x >> 16)])
        a, b = (np.reshape([_half(v), _half(v >> 16)], (2,) + (1,) * x.ndim) for v in (a, b))
        low, high = function(pairs, a, b).astype(np.float16).view(np.uint16).astype(np.uint32)
        return low | high << 16

    return step


def _singles(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A step in single precision, computed in double and rounded."""

    def step(x, older, a, b):
        return function(*(np.asarray(v).astype(np.float64) for v in (x, a, b))).astype(np.float32)

    return step


def _funnel_left(x, older, a, b):
    return (x << (b & 31)) | (older >> (32 - (b & 31)))


def _find_leading_one(x, older, a, b):
    """Index of the highest set bit, -1 for zero (PTX bfind)."""
    return np.where(x == 0, -1, np.floor(np.log2(np.maximum(x, 1).astype(np.float64))).astype(np.int64))


def _bit_count(x, older, a, b):
    return np.array([int(v).bit_count() for v in x.ravel()], np.int64).reshape(x.shape)


def _next_lane(x, older, a, b):
    """Each lane takes its right neighbour's value, the last lane of a warp the first one's; lanes lie along
    the last axis."""
    warps = x.reshape(*x.shape[:-1], -1, LANES)
    return np.roll(warps, -1, axis=-1).reshape(x.shape)


OPS = {
    "fadd": Op("add.rn.f32 $0, $1, $3;", ("FADD",), _SINGLE, _singles(lambda x, a, b: x + a), 0.25, 0, 1e-5),
    "fmul": Op("mul.rn.f32 $0, $1, $3;", ("FMUL",), _SINGLE, _singles(lambda x, a, b: x * a), 1 - 2**-20, 0, 1e-4),
    "ffma": Op("fma.rn.f32 $0, $1, $3, $4;", ("FFMA",), _SINGLE, _singles(lambda x, a, b: x * a + b), 0.75, 0.5, 1e-6),
    "iadd": Op("add.s32 $0, $1, $2;", ("IADD3", "IMAD.IADD"), _WORD, _words(lambda x, older, a, b: x + older), 77, 0),
    "imad": Op("mad.lo.s32 $0, $1, $3, $4;", ("IMAD",), _WORD, _words(lambda x, older, a, b: x * a + b), 1664525, 11),
    "imad64": Op(
        "mad.lo.u64 $0, $1, $3, $4;",
        ("IMAD.WIDE.U32",),
        _LONG,
        lambda x, older, a, b: x * a + b,
        6364136223846793005,
        1442695040888963407,
    ),
    "lop3": Op(
        "lop3.b32 $0, $1, $2, $3, 0x78;",  # x ^ (older & a)
        ("LOP3.LUT",),
        _WORD,
        _words(lambda x, older, a, b: x ^ (older & a)),
        0x5BD1E995,
        0,
    ),
    "shf": Op("shf.l.wrap.b32 $0, $2, $1, $4;", ("SHF.L.W.U32.HI",), _WORD, _words(_funnel_left), 0x9E3779B9, 5),
    "popc": Op("popc.b32 $0, $1;", ("POPC",), _WORD, _words(_bit_count), 0, 0),
    "flo": Op("bfind.u32 $0, $1;", ("FLO.U32",), _WORD, _words(_find_leading_one), 0, 0),
    "hfma2": Op(
        "fma.rn.f16x2 $0, $1, $3, $4;",
        ("HFMA2", "HFMA2.MMA"),
        _WORD,
        _halves(lambda x, a, b: x * a + b),
        0x3800_3800,  # (0.5, 0.5)
        0x3C00_3C00,  # (1, 1)
        halves=True,
    ),
    "dadd": Op("add.rn.f64 $0, $1, $3;", ("DADD",), _DOUBLE, lambda x, older, a, b: x + a, 0.25, 0, 1e-13),
    "dmul": Op("mul.rn.f64 $0, $1, $3;", ("DMUL",), _DOUBLE, lambda x, older, a, b: x * a, 1 - 2**-40, 0, 1e-12),
    "dfma": Op("fma.rn.f64 $0, $1, $3, $4;", ("DFMA",), _DOUBLE, lambda x, older, a, b: x * a + b, 0.75, 0.5, 1e-14),
    "mufu_rsq": Op(
        "rsqrt.approx.ftz.f32 $0, $1;", ("MUFU.RSQ",), _SINGLE, _singles(lambda x, a, b: x**-0.5), 0, 0, 1e-5
    ),
    "mufu_ex2": Op(
        "{.reg .f32 m; neg.f32 m, $1; ex2.approx.ftz.f32 $0, m;}",
        ("MUFU.EX2",),
        _SINGLE,
        _singles(lambda x, a, b: np.exp2(-x)),
        0,
        0,
        1e-5,
    ),
    "mufu_sin": Op(
        "sin.approx.ftz.f32 $0, $1;",
        ("FMUL.RZ", "MUFU.SIN"),
        _SINGLE,
        _singles(lambda x, a, b: np.sin(x)),
        0,
        0,
        tolerance=1e-5,
        absolute_tolerance=4e-6,
    ),
    "frnd": Op(
        "cvt.rmi.ftz.f32.f32 $0, $1;", ("FRND.FTZ.FLOOR",), _SINGLE, _singles(lambda x, a, b: np.floor(x)), 0, 0
    ),
    "f2i_i2f": Op(
        "{.reg .s32 m; cvt.rzi.s32.f32 m, $1; cvt.rn.f32.s32 $0, m;}",
        ("F2I.TRUNC.NTZ", "I2FP.F32.S32"),
        _SINGLE,
        _singles(lambda x, a, b: np.trunc(x)),
        0,
        0,
    ),
    "shfl": Op(
        "{.reg .u32 m; mov.u32 m, %laneid; add.u32 m, m, 1; shfl.sync.idx.b32 $0, $1, m, 31, -1;}",
        ("SHFL.IDX",),
        _WORD,
        _words(_next_lane),
        0,
        0,
    ),
}
