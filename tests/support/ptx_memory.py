"""Accesses to memory, atomics, copies and barrier objects for :mod:`ptx_isa`, written as there."""

from __future__ import annotations

_GLOBAL_HINTS = (
    "ld.global{|.ca|.cg|.cs|.lu|.cv|.nc|.ca.nc|.cg.nc|.cs.nc}.b32 <b32 d>, [G];",
    "ld{.weak|.relaxed.cta|.relaxed.gpu|.relaxed.sys|.acquire.cta|.acquire.gpu|.acquire.sys|.volatile|.mmio.relaxed.sys}.global.b32 <b32 d>, [G];",
    "ld.{relaxed|acquire}.cluster.global.b32 <b32 d>, [G];",
    "ld.global{|.nc}{.L1::evict_normal|.L1::evict_unchanged|.L1::evict_first|.L1::evict_last|.L1::no_allocate}{|.L2::64B|.L2::128B|.L2::256B}.b32 <b32 d>, [G];",
    "ld.global{|.nc}.L2::evict_{first|last|normal}.v8.b32 <8b32 d>, [G];",
    "ld.global{|.nc}{.u8|.s8|.u16|.s16} <b32 d>, [G+3+3];",
    "ld.global{|.nc}{|.L1::no_allocate}.v2.b32 <2b32 d>, [G];",
    "ld.global{|.nc}{|.L1::no_allocate}.v4.b32 <4b32 d>, [G];",
    "ld.global{|.nc}{|.L1::no_allocate}.v8.b32 <8b32 d>, [G];",
    "ld.global{|.nc}.v4.b64 <4b64 d>, [G];",
    "ld.global{|.nc}.v2.b64 <2b64 d>, [G];",
    "ld.global.v4.u8 <4b32 d>, [G+4];",
    "ld.global.v8.f32 <8f32 d>, [G];",
    "ld.global.b128 %q, [G]; mov.b128 {<b64 d>, <b64 e>}, %q;",
    "ld{|.volatile|.relaxed.gpu|.acquire.sys}.b64 <b64 d>, [G];",
    "ldu.global.b32 <b32 d>, [G];",
    "ldu.global.v4.b32 <4b32 d>, [G];",
    "createpolicy.fractional.L2::evict_{last|first|normal|unchanged}.L2::evict_{first|unchanged}.b64 %t, 0.5; ld.global.L2::cache_hint.b32 <b32 d>, [G], %t;",
    "createpolicy.fractional.L2::evict_last.b64 %t; ld.global{|.nc}.L2::cache_hint.v4.b32 <4b32 d>, [G], %t;",
    "createpolicy.fractional.L2::evict_last.b64 %t; st.global.L2::cache_hint.v4.b32 [G], <4b32 a>, %t;",
    "createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %t, [G], 64, 128; st.global.L2::cache_hint.b32 [G], <b32 a>, %t;",
    "createpolicy.cvt.L2.b64 %t, 0x10f0000000000000; st.global.L2::cache_hint.b32 [G], <b32 a>, %t;",
    "createpolicy.fractional.L2::evict_last.b64 %t; atom.global.add.L2::cache_hint.u32 <b32 d>, [G], <b32 a>, %t;",
    "createpolicy.fractional.L2::evict_last.b64 %t; red.global.add.L2::cache_hint.u32 [G], <b32 a>, %t;",
    "st.global{|.wb|.cg|.cs|.wt}.b32 [G], <b32 a>;",
    "st{.weak|.relaxed.cta|.relaxed.gpu|.relaxed.sys|.release.cta|.release.gpu|.release.sys|.volatile|.mmio.relaxed.sys}.global.b32 [G], <b32 a>;",
    "st.global{.L1::evict_normal|.L1::evict_unchanged|.L1::evict_first|.L1::evict_last|.L1::no_allocate}.b32 [G], <b32 a>;",
    "st.global{.b8|.u16} [G+6], <b32 a>;",
    "st.global.v2.b32 [G], <2b32 a>;",
    "st.global.v4.b32 [G], <4b32 a>;",
    "st.global{|.L1::no_allocate}.v8.b32 [G], <8b32 a>;",
    "st.global.L2::evict_{first|last}.v8.b32 [G], <8b32 a>;",
    "st.global.v4.b64 [G], <4b64 a>;",
    "st{|.volatile|.release.sys}.b64 [G], <b64 a>;",
    "mov.b128 %q, {<b64 a>, <b64 b>}; st.global.b128 [G], %q;",
    "prefetch{.global.L1|.global.L2|.global.L2::evict_last|.global.L2::evict_normal} [G];",
    "prefetch{.L1|.L2} [G];",
    "prefetchu.L1 [G];",
    "prefetch{.local.L1|.local.L2} [L];",
    "applypriority.global.L2::evict_normal [G], 128;",
    "discard.global.L2 [G], 128;",
)
MEMORY = (
    "\n".join(_GLOBAL_HINTS)
    + """
ld.shared{|.volatile|.relaxed.cta|.acquire.cta}.b32 <b32 d>, [S];
ld.shared{.u8|.s8|.u16|.s16} <b32 d>, [S+6];
ld.shared.v2.b32 <2b32 d>, [S];
ld.shared.v4.b32 <4b32 d>, [S];
ld.shared.v2.b64 <2b64 d>, [S];
st.shared{.b8|.b16} [S+2], <b32 a>;
st.shared{|.volatile|.relaxed.cta|.release.cta}.b32 [S], <b32 a>;
st.shared.v4.b32 [S], <4b32 a>;
ld.local.b32 <b32 d>, [L];
ld.local.v4.b32 <4b32 d>, [L];
ld.local{.u8|.s16} <b32 d>, [L+6];
st.local{.b8|.b16|.b32} [L+4], <b32 a>;
st.local.v4.b32 [L], <4b32 a>;
isspacep{.global|.shared|.local|.const|.param::entry|.shared::cluster|.shared::cta} <pred d>, %generic;
cvta.to.global.u64 %t, %generic; ld.global.b32 <b32 d>, [%t];
{ .reg .b64 %s; cvta.shared.u64 %s, %shared64; ld.b32 <b32 d>, [%s]; st.b32 [%s+8], <b32 a>; }
{ .reg .b64 %s; cvta.local.u64 %s, %local64; ld.v2.b32 <2b32 d>, [%s]; st.b32 [%s+8], <b32 a>; }
"""
)

ATOMIC = """
atom{|.relaxed.gpu|.acq_rel.sys|.relaxed.cta|.release.gpu|.acquire.gpu}.global.add.u32 <b32 d>, [G], <b32 a>;
atom.global{.and|.or|.xor|.exch}.b32 <b32 d>, [G], <b32 a>;
atom.global{.and|.or|.xor|.exch}.b64 <b64 d>, [G], <b64 a>;
atom.global{.add|.min|.max|.inc|.dec}.u32 <b32 d>, [G], <b32 a>;
atom.global{.add|.min|.max}.s32 <b32 d>, [G], <b32 a>;
atom.global{.add|.min|.max}.u64 <b64 d>, [G], <b64 a>;
atom.global{.min|.max}.s64 <b64 d>, [G], <b64 a>;
atom.global.add.f32 <f32 d>, [G], <f32 a>;
atom.global.add.f64 <f64 d>, [G], <f64 a>;
atom.global.add.noftz{.f16x2|.bf16x2} <b32 d>, [G], <b32 a>;
atom.global.add.noftz{.f16|.bf16} <b16 d>, [G], <b16 a>;
atom.global.cas.b32 <b32 d>, [G], <b32 a>, <b32 b>;
atom.global.cas.b64 <b64 d>, [G], <b64 a>, <b64 b>;
atom.global.cas.b16 <b16 d>, [G], <b16 a>, <b16 b>;
mov.b128 %q, {<b64 a>, <b64 b>}; mov.b128 %q2, {<b64 b>, <b64 c>}; atom.global{.cas.b128 %q, [G], %q, %q2|.exch.b128 %q, [G], %q2}; mov.b128 {<b64 d>, <b64 e>}, %q;
ld.global.b32 %r, [G]; atom.global.cas.b32 <b32 d>, [G], %r, <b32 b>;
atom.global.v2.f32.add <2f32 d>, [G], <2f32 a>;
atom.global.v4.f32.add <4f32 d>, [G], <4f32 a>;
atom.global.v2{.f16|.bf16}.add.noftz <2b16 d>, [G], <2b16 a>;
atom.global.v4{.f16|.bf16}.add.noftz <4b16 d>, [G], <4b16 a>;
atom.global.v8{.f16|.bf16}.add.noftz <8b16 d>, [G], <8b16 a>;
atom.global.v2{.f16x2|.bf16x2}.add.noftz <2b32 d>, [G], <2b32 a>;
atom.global.v4{.f16x2|.bf16x2}.add.noftz <4b32 d>, [G], <4b32 a>;
atom.global.v2{.f16x2|.bf16x2}{.min|.max}.noftz <2b32 d>, [G], <2b32 a>;
atom.global.v4{.f16x2|.bf16x2}{.min|.max}.noftz <4b32 d>, [G], <4b32 a>;
atom.shared{.add|.min|.max|.inc|.dec}.u32 <b32 d>, [S], <b32 a>;
atom.shared{.min|.max}.s32 <b32 d>, [S], <b32 a>;
atom.shared{.and|.or|.xor|.exch}.b32 <b32 d>, [S], <b32 a>;
atom.shared{.and|.or|.xor|.exch}.b64 <b64 d>, [S], <b64 a>;
atom.shared{.add|.min|.max}.u64 <b64 d>, [S], <b64 a>;
atom.shared.add.f32 <f32 d>, [S], <f32 a>;
atom.shared.add.f64 <f64 d>, [S], <f64 a>;
atom.shared.add.noftz{.f16x2|.bf16x2} <b32 d>, [S], <b32 a>;
atom.shared.cas.b32 <b32 d>, [S], <b32 a>, <b32 b>;
atom.shared.cas.b64 <b64 d>, [S], <b64 a>, <b64 b>;
atom.shared.cas.b16 <b16 d>, [S], <b16 a>, <b16 b>;
atom.shared::cta.add.u32 <b32 d>, [S], <b32 a>;
atom{.add.u32|.exch.b32|.min.s32} <b32 d>, [%generic], <b32 a>;
atom{.add.u64|.exch.b64|.min.s64} <b64 d>, [%generic], <b64 a>;
atom.add.f32 <f32 d>, [%generic], <f32 a>;
atom.cas.b32 <b32 d>, [%generic], <b32 a>, <b32 b>;
atom.cas.b64 <b64 d>, [%generic], <b64 a>, <b64 b>;
red{|.relaxed.gpu|.release.sys|.relaxed.cta}.global.add.u32 [G], <b32 a>;
red.global{.and|.or|.xor}.b32 [G], <b32 a>;
red.global{.and|.or|.xor}.b64 [G], <b64 a>;
red.global{.add|.min|.max|.inc|.dec}.u32 [G], <b32 a>;
red.global{.min|.max}.s32 [G], <b32 a>;
red.global{.add|.min|.max}.u64 [G], <b64 a>;
red.global{.min|.max}.s64 [G], <b64 a>;
red.global.add.f32 [G], <f32 a>;
red.global.add.f64 [G], <f64 a>;
red.global.add.noftz{.f16x2|.bf16x2} [G], <b32 a>;
red.global.add.noftz{.f16|.bf16} [G], <b16 a>;
red.global.v2.f32.add [G], <2f32 a>;
red.global.v4.f32.add [G], <4f32 a>;
red.global.v2{.f16|.bf16}.add.noftz [G], <2b16 a>;
red.global.v4{.f16|.bf16}.add.noftz [G], <4b16 a>;
red.global.v8{.f16|.bf16}.add.noftz [G], <8b16 a>;
red.global.v2{.f16x2|.bf16x2}.add.noftz [G], <2b32 a>;
red.global.v4{.f16x2|.bf16x2}.add.noftz [G], <4b32 a>;
red.global.v8{.f16|.bf16}{.min|.max}.noftz [G], <8b16 a>;
red.global.v4{.f16x2|.bf16x2}{.min|.max}.noftz [G], <4b32 a>;
red.shared{.add.u32|.and.b32|.min.s32|.inc.u32} [S], <b32 a>;
red.shared.add.u64 [S], <b64 a>;
red.shared.add.f32 [S], <f32 a>;
red{.add.u32|.min.s32|.xor.b32} [%generic], <b32 a>;
"""

ASYNC = """
cp.async.ca.shared.global{|.L2::128B|.L2::64B|.L2::256B} [S], [G], {4|8|16}; cp.async.commit_group; cp.async.wait_group 0;
cp.async.cg.shared.global{|.L2::128B} [S], [G], 16; cp.async.wait_all;
cp.async.cg.shared.global [S], [G], 16, <b32 a>; cp.async.wait_all;
cp.async.ca.shared.global [S], [G], {4|8|16}, {2|0|4}; cp.async.wait_all;
and.b32 %r, <b32 a>, 15; cp.async.cg.shared.global [S], [G], 16, %r; cp.async.commit_group; cp.async.wait_group 0;
cp.async.cg.shared.global [S], [G], 16, %odd; cp.async.wait_all;
cp.async.ca.shared.global [S], [G], {4|8|16}, %odd; cp.async.wait_all;
createpolicy.fractional.L2::evict_last.b64 %t; cp.async.cg.shared.global.L2::cache_hint [S], [G], 16, %t; cp.async.wait_all;
cp.async.ca.shared.global [S], [G], 4; cp.async.ca.shared.global [S+16], [G+16], 16; cp.async.commit_group; cp.async.ca.shared.global [S+8], [G+8], 8; cp.async.commit_group; cp.async.wait_group 1; cp.async.wait_group 0;
"""

#: One thread initialises, 32 arrive: M is the mbarrier's address.
MBARRIER = """
mbarrier.arrive.shared.b64 %t, [M]; WAIT(test_wait)
mbarrier.arrive.shared::cta.b64 %t, [M]; WAIT(try_wait)
mbarrier.arrive.release.cta.shared::cta.b64 %t, [M], 1; WAIT(test_wait)
mov.u32 %r, 1; mbarrier.arrive.release.cta.shared::cta.b64 %t, [M], %r; WAIT(try_wait)
mbarrier.arrive.noComplete.shared.b64 %t, [N], 1; st.shared.b32 [S], 1;
mbarrier.arrive_drop.shared.b64 %t, [M];
mbarrier.arrive_drop.noComplete.shared.b64 %t, [N], 1;
mbarrier.arrive.shared.b64 %t, [M]; bar.warp.sync 0xffffffff; { .reg .pred %done; mbarrier.test_wait.parity.shared.b64 %done, [M], 0; selp.b32 <b32 d>, 1, 0, %done; mbarrier.test_wait.parity.shared.b64 %done, [M], 1; selp.b32 <b32 e>, 1, 0, %done; }
mbarrier.arrive.shared.b64 %t, [M]; { .reg .pred %done; WAIT0: mbarrier.try_wait.parity.shared::cta.b64 %done, [M], 0; @!%done bra WAIT0; }
mbarrier.arrive.shared.b64 %t, [M]; { .reg .pred %done; WAIT0: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %done, [M], 0, 100000; @!%done bra WAIT0; }
mbarrier.arrive.shared.b64 %t, [M]; { .reg .pred %done; WAIT0: mbarrier.try_wait.shared::cta.b64 %done, [M], %t, 1000; @!%done bra WAIT0; }
mbarrier.arrive.relaxed.cta.shared::cta.b64 %t, [M]; { .reg .pred %done; WAIT0: mbarrier.try_wait.relaxed.cta.shared::cta.b64 %done, [M], %t; @!%done bra WAIT0; }
mbarrier.arrive.shared.b64 %t, [M]; mbarrier.pending_count.b64 <b32 d>, %t;
cp.async.ca.shared.global [S], [G], {4|16}; cp.async.mbarrier.arrive.noinc.shared.b64 [M]; { .reg .pred %done; WAIT0: mbarrier.test_wait.parity.shared.b64 %done, [M], 0; @!%done bra WAIT0; } ld.shared.b32 <b32 d>, [S];
cp.async.ca.shared.global [S], [G], 8; cp.async.mbarrier.arrive.shared.b64 [M]; mbarrier.arrive.shared.b64 %t, [M]; WAIT(test_wait) ld.shared.b32 <b32 d>, [S];
mbarrier.arrive.expect_tx.shared::cta.b64 %t, [M], 0; WAIT(try_wait)
mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [M], 16; mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [M], 16; mbarrier.arrive.shared.b64 %t, [M]; WAIT(try_wait)
mbarrier.arrive.shared.b64 _, [M]; mbarrier.inval.shared.b64 [N];
"""
