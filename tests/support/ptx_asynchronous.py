"""The asynchronous units of Hopper and Blackwell as PTX statements: bulk copies (TMA), wgmma, tcgen05, clusters.

Mental model: as :mod:`ptx_isa` says, whose sections these are: assembled and put to the table, not executed (their
operands are whatever a register holds). Left out is multimem, which needs memory of several GPUs (cuMulticastCreate).
``%t`` stands for a tensor map or a matrix descriptor, ``%own`` for shared memory, ``M`` for an mbarrier.
"""

from __future__ import annotations

_RANKS = {1: "{<b32 a>}", 2: "{<b32 a>, <b32 a1>}", 3: "{<b32 a>, <b32 a1>, <b32 a2>}",
          4: "{<b32 a>, <b32 a1>, <b32 a2>, <b32 a3>}", 5: "{<b32 a>, <b32 a1>, <b32 a2>, <b32 a3>, <b32 a4>}"}  # fmt: skip
_OFFSETS = {3: "{<b16 b>}", 4: "{<b16 b>, <b16 b1>}", 5: "{<b16 b>, <b16 b1>, <b16 b2>}"}
_ROWS = "{<b32 a>, <b32 a1>, <b32 a2>, <b32 a3>, <b32 a4>}"
_TELLS = "shared::cluster.global{mode}.mbarrier::complete_tx::bytes"


def _tensors() -> list[str]:
    """Loads, stores, reductions and prefetches of boxes, mode by mode."""
    lines = []
    for rank, at in _RANKS.items():
        modes = [("{|.tile}", at, "")]
        if rank >= 3:
            modes += [(".im2col", at, f", {_OFFSETS[rank]}"), (".im2col::w{|::128}", at, ", {<b16 b>, <b16 b1>}")]
        if rank == 2:
            modes += [(".tile::gather4", _ROWS, "")]
        for mode, place, offsets in modes:
            load = f"cp.async.bulk.tensor.{rank}d.{_TELLS.format(mode=mode)}"
            lines += [
                f"{load} [%own], [%t, {place}], [M]{offsets};",
                f"{load}.L2::cache_hint [%own], [%t, {place}], [M]{offsets}, <b64 c>;",
                f"{load}.multicast::cluster [%own], [%t, {place}], [M]{offsets}, <b16 c>;",
                f"{load}.multicast::cluster{{.cta_group::1|.cta_group::2}} [%own], [%t, {place}], [M]{offsets}, <b16 c>;",
                f"{load}{{.cta_group::1|.cta_group::2}} [%own], [%t, {place}], [M]{offsets};",
                f"cp.async.bulk.tensor.{rank}d.shared::cta.global{mode}.mbarrier::complete_tx::bytes [%own], [%t, {place}], [M]{offsets};",
                f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global{mode} [%t, {place}]{offsets};",
            ]
        stores = [("{|.tile}", at)] + ([(".im2col_no_offs", at)] if rank >= 3 else [])
        stores += [(".tile::scatter4", _ROWS)] if rank == 2 else []
        for mode, place in stores:
            lines += [f"cp.async.bulk.tensor.{rank}d.global.shared::cta{mode}.bulk_group [%t, {place}], [%own];"]
            if "scatter" not in mode:
                lines += [
                    f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta{{.add|.min|.max|.inc|.dec|.and|.or|.xor}}{mode}.bulk_group [%t, {place}], [%own];"
                ]
    return lines


BULK = "\n".join(
    [
        *_tensors(),
        "cp.async.bulk.shared{::cluster|::cta}.global.mbarrier::complete_tx::bytes [%own], [%t], 64, [M];",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%own], [%t], <b32 a>, [M], <b16 b>;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%own], [%t], <b32 a>, [M], <b64 b>;",
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob [%own], [%t], 64, <b32 a>, <b32 b>, [M];",
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%own], [%own], 64, [M];",
        "cp.async.bulk.global.shared::cta.bulk_group [%t], [%own], {64|<b32 a>};",
        "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%t], [%own], 64, <b64 a>;",
        "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%t], [%own], 64, <b16 a>;",
        "cp.async.bulk.prefetch.L2.global [%t], 64;",
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes{.and|.or|.xor}.b32 [%own], [%own], 64, [M];",
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes{.add|.inc|.dec|.min|.max}.u32 [%own], [%own], 64, [M];",
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes{.add|.min|.max}.s32 [%own], [%own], 64, [M];",
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u64 [%own], [%own], 64, [M];",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group{.and|.or|.xor}{.b32|.b64} [%t], [%own], 64;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group{.add|.min|.max}{.u32|.s32|.u64|.s64} [%t], [%own], 64;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group{.inc|.dec}.u32 [%t], [%own], 64;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add{.f32|.f64|.noftz.f16|.noftz.bf16} [%t], [%own], 64;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group{.min|.max}{.f16|.bf16} [%t], [%own], 64;",
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group{|.read} {0|3};",
        "prefetch{|.param|.const}.tensormap [%t];",
        "tensormap.replace.tile.global_address{.global|.shared::cta}.b1024.b64 [%t], <b64 a>;",
        "tensormap.replace.tile.{rank|elemtype|interleave_layout|swizzle_mode|fill_mode|swizzle_atomicity}{.global|.shared::cta}.b1024.b32 [%t], {0|1};",
        "tensormap.replace.tile.{box_dim|global_dim|element_stride}{.global|.shared::cta}.b1024.b32 [%t], {0|4}, <b32 a>;",
        "tensormap.replace.tile.global_stride{.global|.shared::cta}.b1024.b64 [%t], {0|3}, <b64 a>;",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release{.cta|.cluster|.gpu|.sys}.sync.aligned [%t], [%own], 128;",
        "fence.proxy.tensormap::generic.release{.cta|.cluster|.gpu|.sys};",
        "fence.proxy.tensormap::generic.acquire{.cta|.cluster|.gpu|.sys} [%t], 128;",
        "fence.proxy.async::generic{.acquire|.release}.sync_restrict{::shared::cluster.cluster|::shared::cta.cluster};",
        "fence.proxy.async{|.global|.shared::cta|.shared::cluster};",
    ]
)

CLUSTER = """
barrier.cluster.arrive{|.release|.relaxed}{|.aligned}; barrier.cluster.wait{|.acquire}{|.aligned};
mapa.shared::cluster.u32 <b32 d>, %own, <b32 a>;
mapa.u64 <b64 d>, %generic, <b32 a>;
getctarank.shared::cluster.u32 <b32 d>, %own;
getctarank.u64 <b32 d>, %generic;
mapa.shared::cluster.u32 %r, %own, <b32 a>; ld.shared::cluster{.b32|.relaxed.cluster.b32|.acquire.cluster.b32} <b32 d>, [%r];
mapa.shared::cluster.u32 %r, %own, <b32 a>; ld.shared::cluster.v4.b32 <4b32 d>, [%r];
mapa.shared::cluster.u32 %r, %own, <b32 a>; st.shared::cluster{.b32|.relaxed.cluster.b32|.release.cluster.b32} [%r], <b32 b>;
mapa.shared::cluster.u32 %r, %own, <b32 a>; atom.shared::cluster{.add.u32|.exch.b32|.min.s32|.inc.u32} <b32 d>, [%r], <b32 b>;
mapa.shared::cluster.u32 %r, %own, <b32 a>; atom.shared::cluster.cas{.b32 <b32 d>, [%r], <b32 b>, <b32 c>|.b64 <b64 d>, [%r], <b64 b>, <b64 c>};
mapa.shared::cluster.u32 %r, %own, <b32 a>; red.shared::cluster{.add.u32|.or.b32} [%r], <b32 b>;
mapa.shared::cluster.u32 %r, %own, <b32 a>; red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes{.inc|.dec|.min|.max|.add}.u32 [%r], <b32 b>, [%r];
mapa.shared::cluster.u32 %r, %own, <b32 a>; red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes{.min|.max|.add}.s32 [%r], <b32 b>, [%r];
mapa.shared::cluster.u32 %r, %own, <b32 a>; red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes{.and|.or|.xor}.b32 [%r], <b32 b>, [%r];
mapa.shared::cluster.u32 %r, %own, <b32 a>; red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64 [%r], <b64 b>, [%r];
mapa.shared::cluster.u32 %r, %own, <b32 a>; st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{.b32 [%r], <b32 b>|.b64 [%r], <b64 b>|.v2.b32 [%r], <2b32 b>|.v4.b32 [%r], <4b32 b>|.v2.b64 [%r], <2b64 b>|.f32 [%r], <f32 b>}, [%r];
mapa.shared::cluster.u32 %r, %own, <b32 a>; mbarrier.arrive{|.release.cluster|.relaxed.cluster}.shared::cluster.b64 _, [%r];
mapa.shared::cluster.u32 %r, %own, <b32 a>; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r], <b32 b>;
mapa.shared::cluster.u32 %r, %own, <b32 a>; mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r], <b32 b>;
mapa.shared::cluster.u32 %r, %own, <b32 a>; mbarrier{.expect_tx|.complete_tx}.relaxed.cluster.shared::cluster.b64 [%r], <b32 b>;
mapa.shared::cluster.u32 %r, %own, <b32 a>; mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%r];
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{|.multicast::cluster::all}.b128 [%own], [M];
mov.b128 %q, {<b64 a>, <b64 b>}; { .reg .pred %p; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p, %q; selp.b32 <b32 d>, 1, 0, %p; }
mov.b128 %q, {<b64 a>, <b64 b>}; clusterlaunchcontrol.query_cancel.get_first_ctaid{::x|::y|::z}.b32.b128 <b32 d>, %q;
mov.b128 %q, {<b64 a>, <b64 b>}; clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 <4b32 d>, %q;
"""


def _wgmma() -> list[str]:
    """Every kind of product of a warp group, at one width (registers of D: N / 2 of 32 bits)."""
    fence, done = "wgmma.fence.sync.aligned; ", " wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
    lines = []
    kinds = [
        ("k16", "f32", ("f16.f16", "bf16.bf16"), ", 0, 1"), ("k16", "f16", ("f16.f16",), ", 1, 0"),
        ("k8", "f32", ("tf32.tf32",), ""),
        ("k32", "f32", ("e4m3.e4m3", "e4m3.e5m2", "e5m2.e5m2"), ""), ("k32", "f16", ("e4m3.e4m3", "e5m2.e4m3"), ""),
        ("k32", "s32", ("s8.s8", "s8.u8", "u8.u8"), ""),
    ]  # fmt: skip
    for depth, result, pairs, order in kinds:
        signs = "" if result == "s32" else ", 1, -1"
        for pair in pairs:
            for n in (8, 24, 128, 256) if result != "s32" else (8, 24, 32, 256):
                count = n // 2 if result != "f16" else n // 4
                registers = f"<{count}{'f32' if result == 'f32' else 'b32'} d>"
                for sparse in (False, True):
                    k = f"k{int(depth[1:]) * (2 if sparse else 1)}"
                    name = f"wgmma.mma_async{'.sp' if sparse else ''}.sync.aligned.m64n{n}{k}.{result}.{pair}"
                    meta = ", <b32 b>, 0" if sparse else ""
                    sat = "{|.satfinite}" if result == "s32" else ""
                    lines.append(f"{fence}{name}{sat} {registers}, %t, %t{meta}, %true{signs}{order};{done}")
                    lines.append(f"{fence}{name}{sat} {registers}, <4b32 a>, %t{meta}, %true{signs}{order[:3]};{done}")
            lines += [
                f"{fence}wgmma.mma_async.sync.aligned.m64n64{depth}.{result}.{pair} <{32 if result != 'f16' else 16}{'f32' if result == 'f32' else 'b32'} d>, %t, %t, 0{signs}{order};{done}"
            ]
    lines += [
        f"{fence}wgmma.mma_async.sync.aligned.m64n64k256.s32.b1.b1.and.popc <32b32 d>, {{%t|<4b32 a>}}, %t, %true;{done}"
    ]
    return lines


WGMMA = "\n".join(_wgmma())


def _tcgen05() -> list[str]:
    lines = [
        "tcgen05.alloc{.cta_group::1|.cta_group::2}.sync.aligned.shared::cta.b32 [%own], {64|<b32 a>};",
        "tcgen05.dealloc{.cta_group::1|.cta_group::2}.sync.aligned.b32 <b32 a>, {64|<b32 b>};",
        "tcgen05.relinquish_alloc_permit{.cta_group::1|.cta_group::2}.sync.aligned;",
        "tcgen05.wait{::ld|::st}.sync.aligned;",
        "tcgen05.fence{::before_thread_sync|::after_thread_sync};",
        "tcgen05.commit{.cta_group::1|.cta_group::2}.mbarrier::arrive::one{|.shared::cluster}.b64 [M];",
        "tcgen05.commit{.cta_group::1|.cta_group::2}.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [M], <b16 a>;",
        "tcgen05.shift{.cta_group::1|.cta_group::2}.down [<b32 a>];",
        "tcgen05.cp{.cta_group::1|.cta_group::2}{.128x256b|.4x256b|.128x128b|.64x128b.warpx2::02_13|.64x128b.warpx2::01_23|.32x128b.warpx4}{|.b8x16.b6x16_p32|.b8x16.b4x16_p64} [<b32 a>], %t;",
    ]
    for shape, first in (("32x32b", 1), ("16x64b", 1), ("16x128b", 2), ("16x256b", 4)):
        for repeats in (1, 2, 8, 32, 64, 128):
            count = first * repeats
            if count > 128:
                continue
            lines += [
                f"tcgen05.ld.sync.aligned.{shape}.x{repeats}{{|.pack::16b}}.b32 <{count}b32 d>, [<b32 a>];",
                f"tcgen05.st.sync.aligned.{shape}.x{repeats}{{|.unpack::16b}}.b32 [<b32 a>], <{count}b32 b>;",
            ]
    for repeats in (1, 8, 128):
        lines += [
            f"tcgen05.ld.sync.aligned.16x32bx2.x{repeats}{{|.pack::16b}}.b32 <{repeats}b32 d>, [<b32 a>], 64;",
            f"tcgen05.st.sync.aligned.16x32bx2.x{repeats}{{|.unpack::16b}}.b32 [<b32 a>], 64, <{repeats}b32 b>;",
        ]
    for repeats in (2, 8, 64):
        for number, operations in (("f32", ".min|.max"), ("u32", ".min|.max"), ("s32", ".min|.max")):
            more = "{|.abs}{|.NaN}" if number == "f32" else ""
            kind = "f32" if number == "f32" else "b32"
            lines += [
                f"tcgen05.ld.red.sync.aligned.32x32b.x{repeats}{{{operations}}}{more}.{number} <{repeats}{kind} d>, <{kind} e>, [<b32 a>];",
                f"tcgen05.ld.red.sync.aligned.16x32bx2.x{repeats}{{{operations}}}{more}.{number} <{repeats}{kind} d>, <{kind} e>, [<b32 a>], 32;",
            ]
    group = "{.cta_group::1|.cta_group::2}"
    for sparse in ("", ".sp"):
        meta = ", [<b32 b2>]" if sparse else ""
        for kind in ("f16", "tf32", "f8f6f4", "i8"):
            scale = "{|, 3}" if kind in ("f16", "tf32") else ""
            name = f"tcgen05.mma{sparse}{group}.kind::{kind}"
            lines += [
                f"{name} [<b32 a>], %t, %t{meta}, <b32 b>, %true;",
                f"{name} [<b32 a>], [<b32 a1>], %t{meta}, <b32 b>, %true;",
                f"tcgen05.mma{sparse}{group}.kind::{kind}{{.collector::a::fill|.collector::a::use|.collector::a::lastuse|.collector::a::discard}} [<b32 a>], %t, %t{meta}, <b32 b>, %true;",
                f"tcgen05.mma{sparse}{group}.kind::{kind}{{|.collector::a::lastuse|.collector::a::discard}}.ashift [<b32 a>], [<b32 a1>], %t{meta}, <b32 b>, %true;",
                f"tcgen05.mma{sparse}{group}.kind::{kind}.ashift{{|.collector::a::lastuse|.collector::a::discard}} [<b32 a>], [<b32 a1>], %t{meta}, <b32 b>, %true;",
                f"tcgen05.mma{sparse}.cta_group::1.kind::{kind} [<b32 a>], %t, %t{meta}, <b32 b>, <4b32 c>, %true{scale};",
                f"tcgen05.mma{sparse}.cta_group::2.kind::{kind} [<b32 a>], %t, %t{meta}, <b32 b>, <8b32 c>, %true{scale};",
                f"tcgen05.mma{sparse}.cta_group::2.kind::{kind} [<b32 a>], [<b32 a1>], %t{meta}, <b32 b>, <8b32 c>, %true{scale};",
                f"tcgen05.mma.ws{sparse}.cta_group::1.kind::{kind} [<b32 a>], {{%t|[<b32 a1>]}}, %t{meta}, <b32 b>, %true;",
                f"tcgen05.mma.ws{sparse}.cta_group::1.kind::{kind} [<b32 a>], {{%t|[<b32 a1>]}}, %t{meta}, <b32 b>, %true, <b64 c>;",
                f"tcgen05.mma.ws{sparse}.cta_group::1.kind::{kind}{{.collector::b0::fill|.collector::b1::use|.collector::b2::lastuse|.collector::b3::discard}} [<b32 a>], %t, %t{meta}, <b32 b>, %true, <b64 c>;",
            ]
        for kind, vectors in (
            ("mxf8f6f4", "{|.scale_vec::1X|.block32}"), ("mxf4", "{|.scale_vec::2X|.block32}"),
            ("mxf4nvf4", "{.scale_vec::2X|.scale_vec::4X|.block16|.block32}"),
        ):  # fmt: skip
            name = f"tcgen05.mma{sparse}{group}.kind::{kind}.block_scale{vectors}"
            lines += [
                f"{name} [<b32 a>], {{%t|[<b32 a1>]}}, %t{meta}, <b32 b>, [<b32 c>], [<b32 c1>], %true;",
                f"{name}{{.collector::a::fill|.collector::a::lastuse}} [<b32 a>], %t, %t{meta}, <b32 b>, [<b32 c>], [<b32 c1>], %true;",
            ]
    return lines


TENSOR_MEMORY = "\n".join(_tcgen05())
