"""Products and moves of matrices for :mod:`ptx_isa`, written as there."""

from __future__ import annotations

MATRIX = """
ldmatrix.sync.aligned.m8n8.x1{|.trans}.shared.b16 <1b32 d>, [T];
ldmatrix.sync.aligned.m8n8.x2{|.trans}.shared.b16 <2b32 d>, [T];
ldmatrix.sync.aligned.m8n8.x4{|.trans}.shared.b16 <4b32 d>, [T];
ldmatrix.sync.aligned.m16n16.x1.trans.shared{.b8|.b8x16.b6x16_p32|.b8x16.b4x16_p64} <2b32 d>, [T];
ldmatrix.sync.aligned.m16n16.x2.trans.shared{.b8|.b8x16.b6x16_p32|.b8x16.b4x16_p64} <4b32 d>, [T];
ldmatrix.sync.aligned.m8n16.x1.shared{.b8x16.b6x16_p32|.b8x16.b4x16_p64} <1b32 d>, [T];
ldmatrix.sync.aligned.m8n16.x2.shared{.b8x16.b6x16_p32|.b8x16.b4x16_p64} <2b32 d>, [T];
ldmatrix.sync.aligned.m8n16.x4.shared{.b8x16.b6x16_p32|.b8x16.b4x16_p64} <4b32 d>, [T];
stmatrix.sync.aligned.m8n8.x1{|.trans}.shared.b16 [T], <1b32 a>;
stmatrix.sync.aligned.m8n8.x2{|.trans}.shared.b16 [T], <2b32 a>;
stmatrix.sync.aligned.m8n8.x4{|.trans}.shared.b16 [T], <4b32 a>;
stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [T], <1b32 a>;
stmatrix.sync.aligned.m16n8.x2.trans.shared.b8 [T], <2b32 a>;
stmatrix.sync.aligned.m16n8.x4.trans.shared.b8 [T], <4b32 a>;
mma.sync.aligned.m8n8k4{.row.col|.col.row|.row.row|.col.col}.f32.f16.f16.f32 <8f32 d>, <2b32 a>, <2b32 b>, <8f32 c>;
mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 <4b32 d>, <2b32 a>, <2b32 b>, <4b32 c>;
mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 <4f32 d>, <2b32 a>, <1b32 b>, <4f32 c>;
mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 <2b32 d>, <2b32 a>, <1b32 b>, <2b32 c>;
mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 <4f32 d>, <2b32 a>, <1b32 b>, <4f32 c>;
mma.sync.aligned.m16n8k16.row.col.f32{.f16.f16|.bf16.bf16}.f32 <4f32 d>, <4b32 a>, <2b32 b>, <4f32 c>;
mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 <2b32 d>, <4b32 a>, <2b32 b>, <2b32 c>;
mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 <4f32 d>, <2b32 a>, <1b32 b>, <4f32 c>;
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 <4f32 d>, <4b32 a>, <2b32 b>, <4f32 c>;
mma.sync.aligned.m16n8k32.row.col.f32{.e4m3|.e5m2}{.e4m3|.e5m2}.f32 <4f32 d>, <4b32 a>, <2b32 b>, <4f32 c>;
mma.sync.aligned.m16n8k16.row.col.f32{.e4m3|.e5m2}{.e4m3|.e5m2}.f32 <4f32 d>, <2b32 a>, <1b32 b>, <4f32 c>;
mma.sync.aligned.m16n8k32.row.col.f16{.e4m3|.e5m2}{.e4m3|.e5m2}.f16 <2b32 d>, <4b32 a>, <2b32 b>, <2b32 c>;
mma.sync.aligned.m16n8k16.row.col.f16{.e4m3|.e5m2}{.e4m3|.e5m2}.f16 <2b32 d>, <2b32 a>, <1b32 b>, <2b32 c>;
mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32{.e4m3|.e5m2|.e3m2|.e2m3|.e2m1}{.e4m3|.e5m2|.e3m2|.e2m3|.e2m1}.f32 <4f32 d>, <4b32 a>, <2b32 b>, <4f32 c>;
mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f16{.e4m3|.e3m2|.e2m3|.e2m1}{.e5m2|.e2m1}.f16 <2b32 d>, <4b32 a>, <2b32 b>, <2b32 c>;
mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 <2f64 d>, <1f64 a>, <1f64 b>, <2f64 c>;
mma.sync.aligned.m8n8k4.row.col{.rz|.rm|.rp}.f64.f64.f64.f64 <2f64 d>, <1f64 a>, <1f64 b>, <2f64 c>;
mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 <4f64 d>, <2f64 a>, <1f64 b>, <4f64 c>;
mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 <4f64 d>, <4f64 a>, <2f64 b>, <4f64 c>;
mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 <4f64 d>, <8f64 a>, <4f64 b>, <4f64 c>;
mma.sync.aligned.m8n8k16.row.col{|.satfinite}.s32{.s8.s8|.s8.u8|.u8.u8}.s32 <2b32 d>, <1b32 a>, <1b32 b>, <2b32 c>;
mma.sync.aligned.m16n8k16.row.col{|.satfinite}.s32{.s8.s8|.u8.s8}.s32 <4b32 d>, <2b32 a>, <1b32 b>, <4b32 c>;
mma.sync.aligned.m16n8k32.row.col{|.satfinite}.s32{.s8.s8|.u8.s8}.s32 <4b32 d>, <4b32 a>, <2b32 b>, <4b32 c>;
mma.sync.aligned.m8n8k32.row.col{|.satfinite}.s32{.s4.s4|.u4.s4}.s32 <2b32 d>, <1b32 a>, <1b32 b>, <2b32 c>;
mma.sync.aligned.m16n8k32.row.col.s32{.s4.s4|.u4.s4}.s32 <4b32 d>, <2b32 a>, <1b32 b>, <4b32 c>;
mma.sync.aligned.m16n8k64.row.col{|.satfinite}.s32{.s4.s4|.s4.u4}.s32 <4b32 d>, <4b32 a>, <2b32 b>, <4b32 c>;
mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32{.xor|.and}.popc <2b32 d>, <1b32 a>, <1b32 b>, <2b32 c>;
mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32{.xor|.and}.popc <4b32 d>, <2b32 a>, <1b32 b>, <4b32 c>;
mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32{.xor|.and}.popc <4b32 d>, <4b32 a>, <2b32 b>, <4b32 c>;
"""

SPARSE = """
mma.sp{|::ordered_metadata}.sync.aligned.m16n8k16.row.col.f32{.f16.f16|.bf16.bf16}.f32 <4f32 d>, <2b32 a>, <2b32 b>, <4f32 c>, <b32 c9>, {0x0|0x1|0x2|0x3};
mma.sp{|::ordered_metadata}.sync.aligned.m16n8k32.row.col.f32{.f16.f16|.bf16.bf16}.f32 <4f32 d>, <4b32 a>, <4b32 b>, <4f32 c>, <b32 c9>, {0x0|0x1};
mma.sp{|::ordered_metadata}.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 <2b32 d>, <2b32 a>, <2b32 b>, <2b32 c>, <b32 c9>, 0x0;
mma.sp{|::ordered_metadata}.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16 <2b32 d>, <4b32 a>, <4b32 b>, <2b32 c>, <b32 c9>, 0x1;
mma.sp{|::ordered_metadata}.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 <4f32 d>, <2b32 a>, <2b32 b>, <4f32 c>, <b32 c9>, {0x0|0x3};
mma.sp{|::ordered_metadata}.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32 <4f32 d>, <4b32 a>, <4b32 b>, <4f32 c>, <b32 c9>, {0x0|0x1};
mma.sp{|::ordered_metadata}.sync.aligned.m16n8k32.row.col{|.satfinite}.s32{.s8.s8|.u8.s8}.s32 <4b32 d>, <2b32 a>, <2b32 b>, <4b32 c>, <b32 c9>, {0x0|0x1};
mma.sp{|::ordered_metadata}.sync.aligned.m16n8k64.row.col{|.satfinite}.s32{.s8.s8|.u8.s8}.s32 <4b32 d>, <4b32 a>, <4b32 b>, <4b32 c>, <b32 c9>, 0x0;
mma.sp{|::ordered_metadata}.sync.aligned.m16n8k64.row.col.s32{.s4.s4|.u4.s4}.s32 <4b32 d>, <2b32 a>, <2b32 b>, <4b32 c>, <b32 c9>, {0x0|0x1};
mma.sp{|::ordered_metadata}.sync.aligned.m16n8k128.row.col.s32{.s4.s4|.u4.s4}.s32 <4b32 d>, <4b32 a>, <4b32 b>, <4b32 c>, <b32 c9>, 0x0;
mma.sp{|::ordered_metadata}.sync.aligned.m16n8k64.row.col.f32{.e4m3|.e5m2}{.e4m3|.e5m2}.f32 <4f32 d>, <4b32 a>, <4b32 b>, <4f32 c>, <b32 c9>, 0x0;
mma.sp::ordered_metadata.sync.aligned.kind::f8f6f4.m16n8k64.row.col.f32{.e4m3|.e3m2|.e2m1}{.e4m3|.e2m3|.e2m1}.f32 <4f32 d>, <4b32 a>, <4b32 b>, <4f32 c>, <b32 c9>, 0x0;
"""

_SCALED = "mma.sync.aligned.m16n8k{k}.row.col.kind::{kind}.block_scale.scale_vec::{vec}.f32.{a}.{b}.f32.{scale} <4f32 d>, <4b32 a>, <2b32 b>, <4f32 c>, <b32 c8>, {{{at}}}, <b32 c9>, {{{at2}}};"
SCALED = "\n".join(
    [
        _SCALED.format(k=32, kind="mxf8f6f4", vec="1X", a=a, b=b, scale="ue8m0", at=at, at2=at2)
        for a in ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
        for b in ("e4m3", "e2m3", "e2m1")
        for at, at2 in (("0, 0", "0, 0"), ("1, 1", "3, 2"))
    ]
    + [
        _SCALED.format(k=64, kind=kind, vec=vec, a="e2m1", b="e2m1", scale=scale, at=at, at2=at2)
        for kind, vec, scale in (
            ("mxf4", "2X", "ue8m0"),
            ("mxf4nvf4", "2X", "ue8m0"),
            ("mxf4nvf4", "4X", "ue4m3"),
            ("mxf4nvf4", "4X", "ue8m0"),
        )
        for at, at2 in (("0, 0", "0, 0"), ("0, 1", "0, 3"))
    ]
    + [
        "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e2m1.f32.ue8m0 <4f32 d>, <4b32 a>, <4b32 b>, <4f32 c>, <b32 c7>, 0x0, <b32 c8>, {0, 0}, <b32 c9>, {0, 0};",
        "mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0 <4f32 d>, <4b32 a>, <4b32 b>, <4f32 c>, <b32 c7>, 0x0, <b32 c8>, {0, 0}, <b32 c9>, {0, 0};",
        "mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 <4f32 d>, <4b32 a>, <4b32 b>, <4f32 c>, <b32 c7>, 0x0, <b32 c8>, {0, 0}, <b32 c9>, {0, 0};",
    ]
)
