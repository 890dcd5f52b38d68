"""PTX instruction by instruction; the asynchronous units of Hopper and Blackwell are in :mod:`ptx_asynchronous`.

Mental model: a line is one PTX statement (or a few) whose registers are written ``<type name>``: results are called d
or e, operands a, b or c, ``<4b32 d>`` is a braced list of four. ``G``, ``S`` and ``L`` in an address stand for 64 bytes
of a thread's own in global, shared or local memory, ``T`` for 1 KiB of shared memory of the warp's. :func:`statement`
turns a line into PTX that loads the operands and stores the results; which lines an architecture has is for its
assembler to say. Sections follow the PTX ISA's chapter "Instruction Set".
"""

from __future__ import annotations

import re
from itertools import product

from ptx_asynchronous import BULK, CLUSTER, TENSOR_MEMORY, WGMMA
from ptx_matrices import MATRIX, SCALED, SPARSE
from ptx_memory import ASYNC, ATOMIC, MBARRIER, MEMORY

#: 8-byte slots that a statement's results take at most, of each thread.
SLOTS = 16
LANES = 32
_REGISTER = re.compile(r"<(\d*)(pred|[bfus]\d+) ([a-e]\w*)>")


def expand(line: str) -> list[str]:
    """``add{.s32|.u32} ...``: each of the alternatives."""
    parts = re.split(r"\{([^{}]*\|[^{}]*)\}", line)
    choices = [part.split("|") if i % 2 else [part] for i, part in enumerate(parts)]
    return ["".join(picked) for picked in product(*choices)]


INTEGER = """
{add|sub|mul.lo|mul.hi|div|rem|min|max}{.s16|.u16} <b16 d>, <b16 a>, <b16 b>;
{add|sub|mul.lo|mul.hi|div|rem|min|max}{.s32|.u32} <b32 d>, <b32 a>, <b32 b>;
{add|sub|mul.lo|mul.hi|div|rem|min|max}{.s64|.u64} <b64 d>, <b64 a>, <b64 b>;
{add|sub}.sat.s32 <b32 d>, <b32 a>, <b32 b>;
{add|min|max}{.u16x2|.s16x2} <b32 d>, <b32 a>, <b32 b>;
{min|max}.relu{.s16x2|.s32} <b32 d>, <b32 a>, <b32 b>;
mul.wide{.s16|.u16} <b32 d>, <b16 a>, <b16 b>;
mul.wide{.s32|.u32} <b64 d>, <b32 a>, <b32 b>;
mad{.lo|.hi}{.s16|.u16} <b16 d>, <b16 a>, <b16 b>, <b16 c>;
mad{.lo|.hi}{.s32|.u32} <b32 d>, <b32 a>, <b32 b>, <b32 c>;
mad{.lo|.hi}{.s64|.u64} <b64 d>, <b64 a>, <b64 b>, <b64 c>;
mad.wide{.s32|.u32} <b64 d>, <b32 a>, <b32 b>, <b64 c>;
mad.wide{.s16|.u16} <b32 d>, <b16 a>, <b16 b>, <b32 c>;
mad.hi.sat.s32 <b32 d>, <b32 a>, <b32 b>, <b32 c>;
mul24{.lo|.hi}{.s32|.u32} <b32 d>, <b32 a>, <b32 b>;
mad24{.lo|.hi}{.s32|.u32} <b32 d>, <b32 a>, <b32 b>, <b32 c>;
mad24.hi.sat.s32 <b32 d>, <b32 a>, <b32 b>, <b32 c>;
sad{.s32|.u32} <b32 d>, <b32 a>, <b32 b>, <b32 c>;
sad{.s16|.u16} <b16 d>, <b16 a>, <b16 b>, <b16 c>;
sad{.s64|.u64} <b64 d>, <b64 a>, <b64 b>, <b64 c>;
{abs|neg}.s32 <b32 d>, <b32 a>;
{abs|neg}.s16 <b16 d>, <b16 a>;
{abs|neg}.s64 <b64 d>, <b64 a>;
{popc.b32|clz.b32|bfind.u32|bfind.s32|bfind.shiftamt.u32|bfind.shiftamt.s32} <b32 d>, <b32 a>;
{popc.b64|clz.b64|bfind.u64|bfind.s64|bfind.shiftamt.u64|bfind.shiftamt.s64} <b32 d>, <b64 a>;
brev.b32 <b32 d>, <b32 a>;
brev.b64 <b64 d>, <b64 a>;
fns.b32 <b32 d>, <b32 a>, 5, 2;
fns.b32 <b32 d>, <b32 a>, <b32 b>, <b32 c>;
bfe{.s32|.u32} <b32 d>, <b32 a>, <b32 b>, <b32 c>;
bfe{.s64|.u64} <b64 d>, <b64 a>, <b32 b>, <b32 c>;
bfe{.s32|.u32} <b32 d>, <b32 a>, 7, 9;
bfe{.s64|.u64} <b64 d>, <b64 a>, 17, 29;
bfi.b32 <b32 d>, <b32 a>, <b32 b>, 5, 9;
bfi.b32 <b32 d>, <b32 a>, <b32 b>, <b32 c>, <b32 c1>;
bfi.b64 <b64 d>, <b64 a>, <b64 b>, <b32 c>, <b32 c1>;
szext{.wrap|.clamp}{.s32|.u32} <b32 d>, <b32 a>, <b32 b>;
bmsk{.wrap|.clamp}.b32 <b32 d>, <b32 a>, <b32 b>;
dp4a{.s32|.u32}{.s32|.u32} <b32 d>, <b32 a>, <b32 b>, <b32 c>;
dp2a{.lo|.hi}{.s32|.u32}{.s32|.u32} <b32 d>, <b32 a>, <b32 b>, <b32 c>;
add.cc.{u32|s32} <b32 d>, <b32 a>, <b32 b>; addc.cc.u32 <b32 e>, <b32 a>, <b32 c>; addc.u32 <b32 e1>, <b32 b>, <b32 c>;
sub.cc.{u32|s32} <b32 d>, <b32 a>, <b32 b>; subc.cc.u32 <b32 e>, <b32 a>, <b32 c>; subc.u32 <b32 e1>, <b32 b>, <b32 c>;
add.cc.u64 <b64 d>, <b64 a>, <b64 b>; addc.cc.u64 <b64 e>, <b64 a>, <b64 c>; addc.u64 <b64 e1>, <b64 b>, <b64 c>;
sub.cc.u64 <b64 d>, <b64 a>, <b64 b>; subc.cc.u64 <b64 e>, <b64 a>, <b64 c>; subc.u64 <b64 e1>, <b64 b>, <b64 c>;
mad.lo.cc.u32 <b32 d>, <b32 a>, <b32 b>, <b32 c>; madc.hi.cc.u32 <b32 e>, <b32 a>, <b32 b>, <b32 c>; madc.lo.u32 <b32 e1>, <b32 b>, <b32 c>, <b32 a>;
mad.hi.cc.u32 <b32 d>, <b32 a>, <b32 b>, <b32 c>; madc.lo.cc.u32 <b32 e>, <b32 a>, <b32 b>, <b32 c>; madc.hi.u32 <b32 e1>, <b32 b>, <b32 c>, <b32 a>;
mad.lo.cc.u64 <b64 d>, <b64 a>, <b64 b>, <b64 c>; madc.hi.u64 <b64 e>, <b64 a>, <b64 b>, <b64 c>;
"""

FLOAT = """
{add|sub|mul}{.rn|.rz|.rm|.rp}{|.ftz}{|.sat}.f32 <f32 d>, <f32 a>, <f32 b>;
fma{.rn|.rz|.rm|.rp}{|.ftz}{|.sat}.f32 <f32 d>, <f32 a>, <f32 b>, <f32 c>;
{add|sub|mul}{.rn|.rz|.rm|.rp}.f64 <f64 d>, <f64 a>, <f64 b>;
fma{.rn|.rz|.rm|.rp}.f64 <f64 d>, <f64 a>, <f64 b>, <f64 c>;
{add|sub|mul}{.rn|.rz|.rm|.rp}{|.ftz}.f32x2 <b64 d>, <b64 a>, <b64 b>;
fma{.rn|.rz|.rm|.rp}{|.ftz}.f32x2 <b64 d>, <b64 a>, <b64 b>, <b64 c>;
mov.b64 %t, {<f32 a>, <f32 a>}; fma.rn.f32x2 <b64 d>, %t, <b64 b>, <b64 c>;
mov.b64 %t, {<f32 a>, <f32 b>}; mul.rn.f32x2 <b64 d>, %t, <b64 c>;
mov.b64 %t, {<f32 a>, <f32 a>}; add.rn.ftz.f32x2 <b64 d>, %t, <b64 c>;
mov.b64 %t, {0f3F800000, 0f40000000}; fma.rn.f32x2 <b64 d>, %t, <b64 b>, <b64 c>;
mov.b64 %t, {0f3FC00000, 0f3FC00000}; mul.rn.f32x2 <b64 d>, %t, <b64 c>;
mov.b64 %t, {<f32 a>, <f32 a>}; mov.b64 %t2, {<f32 b>, <f32 b>}; fma.rn.f32x2 <b64 d>, <b64 c>, %t, %t2;
neg.f32 %f, <f32 a>; mov.b64 %t, {%f, %f}; fma.rn.f32x2 <b64 d>, %t, <b64 b>, <b64 c>;
add{.rn|.rz}.f32{.f16|.bf16} <f32 d>, <b16 a>, <f32 b>;
sub{.rn|.rz}.f32{.f16|.bf16} <f32 d>, <b16 a>, <f32 b>;
fma{.rn|.rz}.f32{.f16|.bf16} <f32 d>, <b16 a>, <b16 b>, <f32 c>;
{abs|neg}{|.ftz}.f32 <f32 d>, <f32 a>;
{abs|neg}.f64 <f64 d>, <f64 a>;
{min|max}{|.ftz}{|.NaN}{|.xorsign.abs}.f32 <f32 d>, <f32 a>, <f32 b>;
{min|max}{|.ftz}{|.NaN}{|.abs}.f32 <f32 d>, <f32 a>, <f32 b>, <f32 c>;
{min|max}.f64 <f64 d>, <f64 a>, <f64 b>;
div{.rn|.rz|.rm|.rp}{|.ftz}.f32 <f32 d>, <f32 a>, <f32 b>;
div.rn.f64 <f64 d>, <f64 a>, <f64 b>;
{div.rz|div.rm|div.rp}.f64 <f64 d>, <f64 a>, <f64 b>;
{rcp|sqrt}{.rn|.rz|.rm|.rp}{|.ftz}.f32 <f32 d>, <f32 a>;
{rcp|sqrt}{.rn|.rz|.rm|.rp}.f64 <f64 d>, <f64 a>;
copysign.f32 <f32 d>, <f32 a>, <f32 b>;
copysign.f64 <f64 d>, <f64 a>, <f64 b>;
testp{.finite|.infinite|.number|.notanumber|.normal|.subnormal}.f32 <pred d>, <f32 a>;
testp{.finite|.infinite|.number|.notanumber|.normal|.subnormal}.f64 <pred d>, <f64 a>;
set{.lt|.eq|.le|.gtu|.equ|.num|.nan}{|.ftz}{.u32|.f32}.f32 <b32 d>, <f32 a>, <f32 b>;
set{.lt|.eq|.le|.gtu|.equ|.num|.nan}.u32.f64 <b32 d>, <f64 a>, <f64 b>;
slct{|.ftz}.f32.f32 <f32 d>, <f32 a>, <f32 b>, <f32 c>;
slct.f64.s32 <f64 d>, <f64 a>, <f64 b>, <b32 c>;
slct.b64.f32 <b64 d>, <b64 a>, <b64 b>, <f32 c>;
setp.lt.and.f32 <pred d>|<pred e>, <f32 a>, <f32 b>, !%true;
setp.geu.xor.f64 <pred d>|<pred e>, <f64 a>, <f64 b>, %true;
setp.nan.or.f16x2 <pred d>|<pred e>, <b32 a>, <b32 b>, !%true;
setp.lt.bf16x2 <pred d>|<pred e>, <b32 a>, <b32 b>;
"""

#: Approximate functions: a table is behind them, the same one on every architecture as far as published.
APPROXIMATE = """
div.{approx|full}{|.ftz}.f32 <f32 d>, <f32 a>, <f32 b>;
{rcp|sqrt|rsqrt|sin|cos|lg2|ex2}.approx{|.ftz}.f32 <f32 d>, <f32 a>;
{rcp|rsqrt}.approx.ftz.f64 <f64 d>, <f64 a>;
rsqrt.approx.f64 <f64 d>, <f64 a>;
tanh.approx.f32 <f32 d>, <f32 a>;
{tanh|ex2}.approx.f16 <b16 d>, <b16 a>;
{tanh|ex2}.approx.f16x2 <b32 d>, <b32 a>;
tanh.approx.bf16 <b16 d>, <b16 a>;
tanh.approx.bf16x2 <b32 d>, <b32 a>;
ex2.approx.ftz.bf16 <b16 d>, <b16 a>;
ex2.approx.ftz.bf16x2 <b32 d>, <b32 a>;
"""

HALF = """
{add|sub|mul}{|.rn}{|.ftz}{|.sat}.f16 <b16 d>, <b16 a>, <b16 b>;
{add|sub|mul}{|.rn}{|.ftz}{|.sat}.f16x2 <b32 d>, <b32 a>, <b32 b>;
{add|sub|mul}{|.rn}.bf16 <b16 d>, <b16 a>, <b16 b>;
{add|sub|mul}{|.rn}.bf16x2 <b32 d>, <b32 a>, <b32 b>;
fma.rn{|.ftz}{|.sat|.relu}.f16 <b16 d>, <b16 a>, <b16 b>, <b16 c>;
fma.rn{|.ftz}{|.sat|.relu}.f16x2 <b32 d>, <b32 a>, <b32 b>, <b32 c>;
fma.rn{|.relu|.oob|.oob.relu}.bf16 <b16 d>, <b16 a>, <b16 b>, <b16 c>;
fma.rn{|.relu|.oob|.oob.relu}.bf16x2 <b32 d>, <b32 a>, <b32 b>, <b32 c>;
fma.rn{.oob|.oob.relu}.f16x2 <b32 d>, <b32 a>, <b32 b>, <b32 c>;
fma.rn{.oob|.oob.relu}.f16 <b16 d>, <b16 a>, <b16 b>, <b16 c>;
{abs|neg}{|.ftz}.f16 <b16 d>, <b16 a>;
{abs|neg}{|.ftz}.f16x2 <b32 d>, <b32 a>;
{abs|neg}.bf16 <b16 d>, <b16 a>;
{abs|neg}.bf16x2 <b32 d>, <b32 a>;
{min|max}{|.ftz}{|.NaN}{|.xorsign.abs}.f16 <b16 d>, <b16 a>, <b16 b>;
{min|max}{|.ftz}{|.NaN}{|.xorsign.abs}.f16x2 <b32 d>, <b32 a>, <b32 b>;
{min|max}{|.NaN}{|.xorsign.abs}.bf16 <b16 d>, <b16 a>, <b16 b>;
{min|max}{|.NaN}{|.xorsign.abs}.bf16x2 <b32 d>, <b32 a>, <b32 b>;
set{.lt|.geu|.nan}{.u16|.f16|.s16}.f16 <b16 d>, <b16 a>, <b16 b>;
set{.lt|.geu|.nan}{.u16|.bf16}.bf16 <b16 d>, <b16 a>, <b16 b>;
set{.lt|.geu|.nan}{|.ftz}.f16x2.f16x2 <b32 d>, <b32 a>, <b32 b>;
set{.lt|.geu|.nan}.bf16x2.bf16x2 <b32 d>, <b32 a>, <b32 b>;
set{.lt|.geu|.nan}.u32{.f16x2|.bf16x2} <b32 d>, <b32 a>, <b32 b>;
set.lt.and.u32.f16 <b32 d>, <b16 a>, <b16 b>, !%true;
setp{.lt|.equ|.nan}{|.ftz}.f16 <pred d>, <b16 a>, <b16 b>;
setp{.lt|.equ|.nan}.bf16 <pred d>, <b16 a>, <b16 b>;
"""

CONVERT = """
cvt{.rni|.rzi|.rmi|.rpi}{|.sat}{.u8|.s8|.u16|.s16}.f32 <b16 d>, <f32 a>;
cvt{.rni|.rzi|.rmi|.rpi}{|.ftz|.sat}{.u32|.s32}.f32 <b32 d>, <f32 a>;
cvt{.rni|.rzi|.rmi|.rpi}{|.ftz}{.u64|.s64}.f32 <b64 d>, <f32 a>;
cvt{.rni|.rzi|.rmi|.rpi}{.u16|.s16}.f16 <b16 d>, <b16 a>;
cvt{.rni|.rzi|.rmi|.rpi}{.u32|.s32}{.f16|.bf16} <b32 d>, <b16 a>;
cvt{.rni|.rzi|.rmi|.rpi}{.u64|.s64}{.f16|.bf16} <b64 d>, <b16 a>;
cvt{.rni|.rzi}{.u32|.s32}.f64 <b32 d>, <f64 a>;
cvt{.rni|.rzi|.rmi|.rpi}{.u64|.s64}.f64 <b64 d>, <f64 a>;
cvt{.rn|.rz|.rm|.rp}.f32{.u32|.s32} <f32 d>, <b32 a>;
cvt{.rn|.rz|.rm|.rp}.f32{.u64|.s64} <f32 d>, <b64 a>;
cvt.rn.f32{.u8|.s8|.u16|.s16} <f32 d>, <b16 a>;
cvt{.rn|.rz|.rm|.rp}.f64{.u64|.s64} <f64 d>, <b64 a>;
cvt.rn.f64{.u32|.s32} <f64 d>, <b32 a>;
cvt{.rn|.rz}{.f16|.bf16}{.u32|.s32} <b16 d>, <b32 a>;
cvt{.rn|.rz}{.f16|.bf16}{.u64|.s64} <b16 d>, <b64 a>;
cvt{.rn|.rz}{.f16|.bf16}{.u16|.s16} <b16 d>, <b16 a>;
cvt{.rn|.rz|.rm|.rp}.f32.f64 <f32 d>, <f64 a>;
cvt{|.ftz}.f64.f32 <f64 d>, <f32 a>;
cvt{.rni|.rzi|.rmi|.rpi}{|.ftz}{|.sat}.f32.f32 <f32 d>, <f32 a>;
cvt{.rni|.rzi|.rmi|.rpi}.f64.f64 <f64 d>, <f64 a>;
cvt{.rni|.rzi|.rmi|.rpi}.f16.f16 <b16 d>, <b16 a>;
cvt{.rni|.rzi|.rmi|.rpi}.bf16.bf16 <b16 d>, <b16 a>;
cvt{.rn|.rz|.rm|.rp}{.f16|.bf16|.sat.f16}.f32 <b16 d>, <f32 a>;
cvt{.rn|.rz}{|.relu}{|.satfinite}{.f16|.bf16}.f32 <b16 d>, <f32 a>;
cvt{.rn|.rz}{.f16|.bf16}.f64 <b16 d>, <f64 a>;
cvt{|.ftz}.f32{.f16|.bf16} <f32 d>, <b16 a>;
cvt.f64{.f16|.bf16} <f64 d>, <b16 a>;
cvt.rn.bf16.f16 <b16 d>, <b16 a>;
cvt.rn.f16.bf16 <b16 d>, <b16 a>;
cvt{.rn|.rz}{|.relu}{|.satfinite}{.f16x2|.bf16x2}.f32 <b32 d>, <f32 a>, <f32 b>;
cvt.rs{|.relu}{|.satfinite}{.f16x2|.bf16x2}.f32 <b32 d>, <f32 a>, <f32 b>, <b32 c>;
cvt.rna{|.satfinite}.tf32.f32 <b32 d>, <f32 a>;
cvt{.rn|.rz}{|.relu}{|.satfinite}.tf32.f32 <b32 d>, <f32 a>;
cvt.rn.satfinite{|.relu}{.e4m3x2|.e5m2x2}.f32 <b16 d>, <f32 a>, <f32 b>;
cvt.rn.satfinite{|.relu}{.e4m3x2|.e5m2x2}{.f16x2|.bf16x2} <b16 d>, <b32 a>;
cvt.rn{|.relu}.f16x2{.e4m3x2|.e5m2x2} <b32 d>, <b16 a>;
cvt.rn{|.relu}.bf16x2{.e4m3x2|.e5m2x2} <b32 d>, <b16 a>;
cvt.rn.satfinite{|.relu}{.e2m3x2|.e3m2x2}.f32 <b16 d>, <f32 a>, <f32 b>;
cvt.rn.satfinite{|.relu}{.e2m3x2|.e3m2x2}{.f16x2|.bf16x2} <b16 d>, <b32 a>;
cvt.rn{|.relu}.f16x2{.e2m3x2|.e3m2x2} <b32 d>, <b16 a>;
{ .reg .b8 %e2; cvt.rn.satfinite{|.relu}.e2m1x2.f32 %e2, <f32 a>, <f32 b>; cvt.u16.u8 <b16 d>, %e2; }
{ .reg .b8 %e2; cvt.rn.satfinite{|.relu}.e2m1x2.{f16x2|bf16x2} %e2, <b32 a>; mov.b16 <b16 d>, {%e2, 0}; }
{ .reg .b8 %e2; cvt.u8.u16 %e2, <b16 a>; cvt.rn{|.relu}.f16x2.e2m1x2 <b32 d>, %e2; }
cvt.rs{|.relu}.satfinite{.e4m3x4|.e5m2x4|.e2m3x4|.e3m2x4}.f32 <b32 d>, {<f32 a>, <f32 a1>, <f32 b>, <f32 b1>}, <b32 c>;
cvt.rs{|.relu}.satfinite.e2m1x4.f32 <b16 d>, {<f32 a>, <f32 a1>, <f32 b>, <f32 b1>}, <b32 c>;
cvt{.rz|.rp}{|.satfinite}.ue8m0x2.f32 <b16 d>, <f32 a>, <f32 b>;
cvt{.rz|.rp}{|.satfinite}.ue8m0x2.bf16x2 <b16 d>, <b32 a>;
cvt.rn.bf16x2.ue8m0x2 <b32 d>, <b16 a>;
cvt.pack.sat{.u8|.s8}.s32.b32 <b32 d>, <b32 a>, <b32 b>, <b32 c>;
cvt.pack.sat{.u4|.s4|.u2|.s2}.s32.b32 <b32 d>, <b32 a>, <b32 b>, <b32 c>;
cvt.pack.sat{.u16|.s16}.s32 <b32 d>, <b32 a>, <b32 b>;
cvt{|.sat}{.u8|.s8}.s32 <b16 d>, <b32 a>;
cvt{|.sat}{.u16|.s16}{.u32|.s32} <b16 d>, <b32 a>;
cvt{|.sat}{.u32|.s32}{.u64|.s64} <b32 d>, <b64 a>;
cvt{.u64|.s64}{.u8|.s8|.u16|.s16} <b64 d>, <b16 a>;
"""

LOGIC = """
{and|or|xor}.b16 <b16 d>, <b16 a>, <b16 b>;
{and|or|xor}.b32 <b32 d>, <b32 a>, <b32 b>;
{and|or|xor}.b64 <b64 d>, <b64 a>, <b64 b>;
{not|cnot}.b16 <b16 d>, <b16 a>;
{not|cnot}.b32 <b32 d>, <b32 a>;
{not|cnot}.b64 <b64 d>, <b64 a>;
lop3.b32 <b32 d>, <b32 a>, <b32 b>, <b32 c>, {0x96|0xe8|0xca|0x1b};
lop3{.or|.and}.b32 <b32 d>|<pred e>, <b32 a>, <b32 b>, <b32 c>, 0xca, %true;
{shl.b16|shr.u16|shr.s16} <b16 d>, <b16 a>, <b32 b>;
{shl.b32|shr.u32|shr.s32} <b32 d>, <b32 a>, <b32 b>;
{shl.b64|shr.u64|shr.s64} <b64 d>, <b64 a>, <b32 b>;
shf{.l|.r}{.wrap|.clamp}.b32 <b32 d>, <b32 a>, <b32 b>, <b32 c>;
shf{.l|.r}{.wrap|.clamp}.b32 <b32 d>, <b32 a>, <b32 b>, 11;
prmt.b32 <b32 d>, <b32 a>, <b32 b>, <b32 c>;
prmt.b32{.f4e|.b4e|.rc8|.ecl|.ecr|.rc16} <b32 d>, <b32 a>, <b32 b>, <b32 c>;
prmt.b32 <b32 d>, <b32 a>, <b32 b>, {0x1054|0x8ba9|0x5410};
selp.b32 <b32 d>, <b32 a>, <b32 b>, %true;
selp.b64 <b64 d>, <b64 a>, <b64 b>, %true;
slct.s32.s32 <b32 d>, <b32 a>, <b32 b>, <b32 c>;
slct.u64.s32 <b64 d>, <b64 a>, <b64 b>, <b32 c>;
set{.eq|.lt|.hs}.u32.u32 <b32 d>, <b32 a>, <b32 b>;
set{.eq|.lt|.ge}{.s32|.f32}.s64 <b32 d>, <b64 a>, <b64 b>;
setp{.eq|.lt}.xor.s64 <pred d>|<pred e>, <b64 a>, <b64 b>, !%true;
setp.ls.u16 <pred d>, <b16 a>, <b16 b>;
mov.b64 {<b32 d>, <b32 e>}, <b64 a>;
mov.b32 {<b16 d>, <b16 e>}, <b32 a>;
mov.b64 {<b16 d>, <b16 d1>, <b16 e>, <b16 e1>}, <b64 a>;
mov.b128 %q, {<b64 a>, <b64 b>}; mov.b128 {<b64 d>, <b64 e>}, %q;
"""

VIDEO = """
{vadd|vsub|vabsdiff|vmin|vmax}{.s32.s32|.u32.u32|.s32.u32}.s32{|.sat} <b32 d>, <b32 a>{.b1|.h0}, <b32 b>{.b3|.h1};
{vadd|vsub|vabsdiff|vmin|vmax}.s32.s32.u32{.sat.add|.min|.max} <b32 d>, <b32 a>.b2, <b32 b>, <b32 c>;
{vadd|vmin}.u32.u32.s32 <b32 d>.{b1|h1}, <b32 a>.b2, <b32 b>, <b32 c>;
{vshl|vshr}{.s32.s32|.u32.u32}.u32{.clamp|.wrap} <b32 d>, <b32 a>.h1, <b32 b>.b1;
{vshl|vshr}{.s32.s32|.u32.u32}.u32{.clamp|.wrap}.add <b32 d>, <b32 a>, <b32 b>, <b32 c>;
vmad{.s32|.u32}.{s32.s32|u32.u32}{|.sat}{|.shr7|.shr15} <b32 d>, <b32 a>.h0, <b32 b>.h1, <b32 c>;
vmad.u32.u32.u32.po <b32 d>, <b32 a>.b0, <b32 b>.b1, <b32 c>;
vset{.s32.s32|.u32.u32|.s32.u32}{.lt|.ge|.ne} <b32 d>, <b32 a>.h0, <b32 b>.b1;
vset.s32.u32.le{.add|.min|.max} <b32 d>, <b32 a>.h0, <b32 b>.b1, <b32 c>;
{vadd2|vsub2|vavrg2|vabsdiff2|vmin2|vmax2}{.s32.s32.s32|.u32.u32.u32}{|.sat|.add} <b32 d>, <b32 a>, <b32 b>, <b32 c>;
{vadd4|vsub4|vavrg4|vabsdiff4|vmin4|vmax4}{.s32.s32.s32|.u32.u32.u32}{|.sat|.add} <b32 d>, <b32 a>, <b32 b>, <b32 c>;
{vadd2|vsub2}.s32.s32.s32 <b32 d>.h1, <b32 a>.h21, <b32 b>.h03, <b32 c>;
{vadd4|vmax4}.s32.s32.s32 <b32 d>.b210, <b32 a>.b7531, <b32 b>.b6420, <b32 c>;
{vset2|vset4}{.s32.s32|.u32.u32}{.lt|.ge|.ne}{|.add} <b32 d>, <b32 a>, <b32 b>, <b32 c>;
"""

WARP = """
vote.sync{.all|.any|.uni}.pred <pred d>, %odd, 0xffffffff;
vote.sync.ballot.b32 <b32 d>, %odd, 0xffffffff;
vote.sync.ballot.b32 <b32 d>, !%odd, %all;
match.any.sync.b32 <b32 d>, <b32 a>, 0xffffffff;
match.any.sync.b64 <b32 d>, <b64 a>, 0xffffffff;
match.all.sync.b32 <b32 d>|<pred e>, <b32 a>, 0xffffffff;
match.all.sync.b64 <b32 d>|<pred e>, <b64 a>, 0xffffffff;
redux.sync{.add|.min|.max}{.u32|.s32} <b32 d>, <b32 a>, 0xffffffff;
redux.sync{.and|.or|.xor}.b32 <b32 d>, <b32 a>, 0xffffffff;
redux.sync.add.s32 <b32 d>, <b32 a>, %all;
redux.sync{.min|.max}{|.abs}{|.NaN}.f32 <f32 d>, <f32 a>, 0xffffffff;
shfl.sync{.up|.down|.bfly|.idx}.b32 <b32 d>|<pred e>, <b32 a>, <b32 b>, 0x1f, 0xffffffff;
shfl.sync{.up|.down|.bfly|.idx}.b32 <b32 d>, <b32 a>, 5, 0x1803, 0xffffffff;
shfl.sync.idx.b32 <b32 d>, <b32 a>, <b32 b>, <b32 c>, %all;
activemask.b32 <b32 d>;
elect.sync <b32 d>|<pred e>, 0xffffffff;
elect.sync <b32 d>|<pred e>, %all;
bar.warp.sync 0xffffffff;
bar.warp.sync %all;
movmatrix.sync.aligned.m8n8.trans.b16 <b32 d>, <b32 a>;
@%odd bar.warp.sync 0xaaaaaaaa;
"""

CONTROL = """
bar.sync 0;
bar.sync 1, 32;
barrier.sync 2;
barrier.sync.aligned 3, 32;
barrier.cta.sync{|.aligned} 4, 32;
barrier.cta.arrive{|.aligned} 5, 64; barrier.cta.sync{|.aligned} 5, 64;
bar.red{.and|.or}.pred <pred d>, 1, %odd;
bar.red.popc.u32 <b32 d>, 0, %odd;
barrier.cta.red.popc{|.aligned}.u32 <b32 d>, 6, 32, %odd;
mov.u32 %r, 7; bar.sync %r, 32;
mov.u32 %r, %ntid.x; mov.u32 %r2, 3; barrier.sync %r2, %r;
membar{.cta|.gl|.sys};
fence{|.sc|.acq_rel}{.cta|.gpu|.sys|.cluster};
fence.proxy{.alias|.async|.async.global|.async.shared::cta};
fence.mbarrier_init.release.cluster;
fence.acquire.sync_restrict::shared::cluster.cluster;
nanosleep.u32 20;
nanosleep.u32 <b32 a>;
griddepcontrol{.launch_dependents|.wait};
pmevent 3;
pmevent.mask 12;
@!%true trap;
@!%true brkpt;
@!%true exit;
mov.u32 <b32 d>, %tid.{x|y|z};
mov.u32 <b32 d>, %ntid.{x|y|z};
mov.u32 <b32 d>, %ctaid.{x|y|z};
mov.u32 <b32 d>, %nctaid.{x|y|z};
mov.u32 <b32 d>, {%laneid|%warpid|%nwarpid|%smid|%nsmid|%lanemask_eq|%lanemask_le|%lanemask_lt|%lanemask_ge|%lanemask_gt};
mov.u32 <b32 d>, {%clock|%clock_hi|%globaltimer_lo|%globaltimer_hi|%dynamic_smem_size|%total_smem_size|%aggr_smem_size|%reserved_smem_offset_begin|%reserved_smem_offset_end|%envreg3|%pm0};
mov.u64 <b64 d>, {%clock64|%globaltimer|%gridid|%current_graph_exec|%pm0_64};
mov.u32 <b32 d>, {%cluster_ctarank|%cluster_nctarank|%cluster_ctaid.x|%cluster_nctaid.x|%clusterid.x|%nclusterid.x|%cluster_ctaid.y|%clusterid.z};
mov.pred <pred d>, %is_explicit_cluster;
and.b32 %r, <b32 a>, 3; { targets: .branchtargets GOTO0, GOTO1, GOTO2, GOTO3; brx.idx %r, targets; GOTO0: mov.u32 <b32 d>, 7; bra GOTO4; GOTO1: mov.u32 <b32 d>, %clock; mov.u32 <b32 d>, 9; bra GOTO4; GOTO2: add.u32 <b32 d>, %r, 5; bra GOTO4; GOTO3: mul.lo.u32 <b32 d>, %r, %r; GOTO4: }
{ .reg .b64 %size; mov.u64 %size, 64; .reg .b64 %p0, %p1, %s; stacksave.u64 %s; alloca.u64 %p0, %size, 16; cvta.local.u64 %p1, %p0; st.b32 [%p1], <b32 a>; ld.b32 <b32 d>, [%p1]; stackrestore.u64 %s; }
call (<b32 d>), twice, (<b32 a>);
{ .reg .b64 %fn; mov.u64 %fn, twice; and.b32 %r, <b32 a>, 1; setp.eq.u32 %true, %r, 1; @%true mov.u64 %fn, thrice; proto: .callprototype (.param .b32 _) _ (.param .b32 _); { .param .b32 ret; .param .b32 arg; st.param.b32 [arg], <b32 a>; call (ret), %fn, (arg), proto; ld.param.b32 <b32 d>, [ret]; } }
setmaxnreg{.inc|.dec}.sync.aligned.u32 64;
"""

SECTIONS = {
    "integer": INTEGER, "float": FLOAT, "approximate": APPROXIMATE, "half": HALF, "convert": CONVERT, "logic": LOGIC,
    "video": VIDEO, "warp": WARP, "memory": MEMORY, "atomic": ATOMIC, "async": ASYNC, "mbarrier": MBARRIER,
    "matrix": MATRIX, "sparse": SPARSE, "scaled": SCALED, "control": CONTROL,
    "bulk": BULK, "cluster": CLUSTER, "wgmma": WGMMA, "tensor_memory": TENSOR_MEMORY,
}  # fmt: skip


def lines(section: str) -> list[str]:
    """Every line of a section, alternatives written out, without blanks and repetitions."""
    found = (one.strip() for line in SECTIONS[section].splitlines() if line.strip() for one in expand(line))
    return list(dict.fromkeys(found))


_WAIT = "{{ .reg .pred %done; WAIT0: mbarrier.{}.shared.b64 %done, [M], %t; @!%done bra WAIT0; }}"
#: Bytes of results and of memory of a statement.
MEMORY_AT = SLOTS * 8 * LANES
STATEMENT_BYTES = MEMORY_AT + 64 * LANES
_PREDICATE_LOAD = "{{ .reg .b32 %p; ld.global.b32 %p, [%in+{at}]; and.b32 %p, %p, 1; setp.ne.u32 %{name}, %p, 0; }}"


def registers(line: str) -> dict[str, tuple[str, int]]:
    """Register name -> (type, count; 0 for one that is no list)."""
    return {name: (kind, int(count or 0)) for count, kind, name in _REGISTER.findall(line)}


def statement(line: str, number: int, place: int) -> tuple[str, int]:
    """(PTX of one line, 8-byte operand slots read); ``number`` makes labels its own, results go to the ``place``-th
    block."""
    line = re.sub(r"WAIT\((\w+)\)", lambda m: _WAIT.format(m.group(1)), line)
    line = re.sub(r"\b(WAIT|GOTO)(\d)\b", rf"$\1_{number}_\2", line)
    line = re.sub(r"\b(targets|proto)\b", rf"\1_{number}", line)
    text, read, written = ["{"], 0, 0
    stores = []
    for name, (kind, count) in registers(line).items():
        for i in range(max(1, count)):
            own = f"{name}{i}" if count else name
            text.append(f".reg .{kind} %{own};")
            if name[0] in "abc":
                at = 8 * LANES * read
                text.append(
                    _PREDICATE_LOAD.format(at=at, name=own)
                    if kind == "pred"
                    else f"ld.global.{kind} %{own}, [%in+{at}];"
                )
                read += 1
            else:
                at = place * STATEMENT_BYTES + 8 * LANES * written
                if kind == "pred":
                    stores.append(f"{{ .reg .b32 %p; selp.b32 %p, 1, 0, %{own}; st.global.b32 [%out+{at}], %p; }}")
                else:
                    stores.append(f"st.global.{kind} [%out+{at}], %{own};")
                written += 1

    def named(match: re.Match) -> str:
        count, _, name = match.groups()
        return f"{{{', '.join(f'%{name}{i}' for i in range(int(count)))}}}" if count else f"%{name}"

    body = _REGISTER.sub(named, line)
    uses = {letter for letter in "GSLTMN" if re.search(rf"\[{letter}\b", body)}
    for name, letter in (("%generic", "G"), ("%shared64", "S"), ("%local64", "L")):
        if name in body:
            uses.add(letter)
    if uses:
        text.append(f"add.u64 %memory, %scratch, {place * STATEMENT_BYTES + MEMORY_AT};")
    if "%generic" in body:
        text.append("mov.b64 %generic, %memory;")
    for letter, space, address in (("S", "shared", "%own"), ("L", "local", "%kept"), ("T", "shared", "%row")):
        if letter in uses:
            for at in range(0, 32 if letter == "T" else 64, 16):
                text.append(
                    f"ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%memory+{at}]; st.{space}.v4.b32 [{address}+{at}], {{%w0, %w1, %w2, %w3}};"
                )
            text.append("bar.warp.sync 0xffffffff;")
    if uses & {"M", "N"}:
        text.append(
            "bar.sync 0; @%first mbarrier.init.shared.b64 [%meeting], 32; mbarrier.init.shared.b64 [%single], 2; bar.sync 0;"
        )
    for letter, address in (
        ("G", "%memory"),
        ("S", "%own"),
        ("L", "%kept"),
        ("T", "%row"),
        ("M", "%meeting"),
        ("N", "%single"),
    ):
        body = re.sub(rf"\[{letter}\b", f"[{address}", body)
    text.append(body)
    for letter, space, address in (("S", "shared", "%own"), ("L", "local", "%kept"), ("T", "shared", "%row")):
        if letter in uses:
            text.append("bar.warp.sync 0xffffffff;")
            for at in range(0, 32 if letter == "T" else 64, 16):
                text.append(
                    f"ld.{space}.v4.b32 {{%w0, %w1, %w2, %w3}}, [{address}+{at}]; st.global.v4.b32 [%memory+{at}], {{%w0, %w1, %w2, %w3}};"
                )
    if uses & {"M", "N"}:
        text.append("bar.sync 0;")
    return " ".join([*text, *stores, "}"]), read


_HEAD = """.version {version}
.target {architecture}
.address_size 64
.visible .func (.param .b32 ret) twice(.param .b32 arg) {{ .reg .b32 %v; ld.param.b32 %v, [arg]; add.u32 %v, %v, %v; st.param.b32 [ret], %v; ret; }}
.visible .func (.param .b32 ret) thrice(.param .b32 arg) {{ .reg .b32 %v; ld.param.b32 %v, [arg]; mul.lo.u32 %v, %v, 3; st.param.b32 [ret], %v; ret; }}
"""
_ENTRY = """.visible .entry {name}({parameters}) {{
.reg .b64 %out, %in, %scratch, %step, %memory, %t, %t2, %generic, %shared64, %local64; .reg .b32 %thread, %own, %row, %meeting, %single, %r, %r2, %all, %kept, %w<4>;
.reg .f32 %f; .reg .b128 %q, %q2; .reg .pred %odd, %true, %first;
.shared .align 64 .b8 own[2048]; .shared .align 128 .b8 tile[1024]; .shared .align 8 .b8 meeting[8]; .shared .align 8 .b8 single[256];
.local .align 16 .b8 kept[64];
ld.param.u64 %scratch, [p4]; ld.param.u64 %in, [p11];
mov.u32 %thread, %tid.x; mul.wide.u32 %step, %thread, 8; add.u64 %out, %scratch, %step; add.u64 %in, %in, %step;
mul.wide.u32 %step, %thread, 64; add.u64 %scratch, %scratch, %step;
mov.u32 %own, own; mad.lo.u32 %own, %thread, 64, %own; mov.u32 %row, tile; mad.lo.u32 %row, %thread, 32, %row;
mov.u32 %meeting, meeting; mov.u32 %single, single; mad.lo.u32 %single, %thread, 8, %single; mov.u32 %kept, kept;
cvt.u64.u32 %shared64, %own; cvt.u64.u32 %local64, %kept;
and.b32 %r, %thread, 1; setp.ne.u32 %odd, %r, 0; setp.eq.u32 %first, %thread, 0; mov.u32 %all, %ntid.x; setp.gt.u32 %true, %all, 0; sub.u32 %all, %all, 33;
"""
_PARAMETERS = ",".join(f".param .u64 p{i}" for i in range(14))


def module(groups: list[list[str]], architecture: str, version: str = "9.3") -> tuple[str, dict[int, tuple[int, int]]]:
    """(PTX of a module with entry ``form_i`` for each group of lines; line of the text -> (group, line in it))."""
    text = _HEAD.format(version=version, architecture=architecture).splitlines()
    places = {}
    number = 0
    for i, group in enumerate(groups):
        text += _ENTRY.format(name=f"form_{i}", parameters=_PARAMETERS).splitlines()
        for k, line in enumerate(group):
            text.append(statement(line, number, k)[0])
            places[len(text)] = (i, k)
            number += 1
        text.append("ret; }")
    return "\n".join(text) + "\n", places
