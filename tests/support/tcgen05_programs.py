"""Kernels on tensor memory: an image of shared memory and one of tensor memory in, what tensor memory holds after some
PTX out.

Mental model: 128 threads bring both images into place, thread 0 does what the test is about, commits it to an mbarrier
at which all wait, and then each thread writes its lane. NumPy prepares the images and knows what must come out.
"""

from __future__ import annotations

import numpy as np

import gpusim

#: Where the image of shared memory begins: behind what the kernel keeps for itself, at the period of all swizzles.
IMAGE = 1024
LANES, COLUMNS = 128, 512

_TEXT = """
.version {version}
.target {target}
.address_size 64
.extern .shared .align 1024 .b8 room[];
.visible .entry k(.param .b64 p_image, .param .b64 p_memory, .param .b64 p_out)
.maxntid 128
{cluster}
{{
.reg .b64 image, memory, out, o, tstep; .reg .pred p, q, leader, first, yes, no; .reg .b32 rank; .reg .b16 both; .reg .b32 s, t, ta, i, n, tid, warp, lane, bar, x, y;
.reg .b32 r<32>; .reg .b64 da, db, sd; .reg .b32 id;
ld.param.b64 image, [p_image]; ld.param.b64 memory, [p_memory]; ld.param.b64 out, [p_out];
mov.u32 tid, %tid.x; shr.u32 warp, tid, 5; and.b32 lane, tid, 31;
mov.u32 rank, %cluster_ctarank; mov.u32 s, room; add.u32 bar, s, 8; setp.eq.u32 leader, tid, 0; setp.eq.and.u32 first, rank, 0, leader; setp.eq.u32 yes, 0, 0; setp.ne.u32 no, 0, 0;
setp.ne.u32 p, warp, 0;
@p bra ALLOCATED;
tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [s], {columns};
ALLOCATED:
@leader mbarrier.init.shared::cta.b64 [bar], 1;
mul.wide.u32 o, rank, {bytes}; add.u64 image, image, o; mul.wide.u32 o, rank, {memory_bytes};
add.u64 memory, memory, o; add.u64 out, out, o; mul.lo.u32 i, tid, 16;
FILL:
setp.ge.u32 p, i, {bytes};
@p bra FILLED;
cvt.u64.u32 o, i; add.u64 o, o, image;
ld.global.v4.b32 {{r0, r1, r2, r3}}, [o];
add.u32 x, s, i; st.shared.v4.b32 [x+{place}], {{r0, r1, r2, r3}};
add.u32 i, i, 2048; bra FILL;
FILLED:
fence.proxy.async.shared::cta;
bar.sync 0;
ld.shared.b32 t, [s];
shl.b32 ta, warp, 21; add.u32 ta, ta, t;
mul.wide.u32 tstep, tid, {row_bytes}; add.u64 memory, memory, tstep; add.u64 out, out, tstep;
mov.u32 i, 0;
SET:
mul.wide.u32 o, i, 4; add.u64 o, o, memory;
ld.global.v4.b32 {{r0, r1, r2, r3}}, [o]; ld.global.v4.b32 {{r4, r5, r6, r7}}, [o+16];
add.u32 x, ta, i;
tcgen05.st.sync.aligned.32x32b.x8.b32 [x], {{r0, r1, r2, r3, r4, r5, r6, r7}};
add.u32 i, i, 8; setp.lt.u32 p, i, {columns};
@p bra SET;
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
{all}
{meet}
@!first bra WAIT;
shr.u32 x, s, 4; cvt.u64.u32 sd, x;
{body}
{commit}
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 p, [bar], 0;
@!p bra WAIT;
tcgen05.fence::after_thread_sync;
mov.u32 i, 0;
GET:
add.u32 x, ta, i;
tcgen05.ld.sync.aligned.32x32b.x8.b32 {{r0, r1, r2, r3, r4, r5, r6, r7}}, [x];
tcgen05.wait::ld.sync.aligned;
mul.wide.u32 o, i, 4; add.u64 o, o, out;
st.global.v4.b32 [o], {{r0, r1, r2, r3}}; st.global.v4.b32 [o+16], {{r4, r5, r6, r7}};
add.u32 i, i, 8; setp.lt.u32 p, i, {columns};
@p bra GET;
bar.sync 0;
{meet}
setp.ne.u32 p, warp, 0;
@p bra DONE;
{release}
DONE:
ret;
}}
"""
_RELEASE = "tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 t, {columns};"


_MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
_COMMIT = "tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster"


def run(body, image=None, memory=None, columns=64, gpu="b200", all_threads="", release=True, pair=False, **options):
    """int32[128, columns]: tensor memory after thread 0 has executed ``body`` (PTX; ``s``: shared address of byte 0,
    the image at s + 1024; ``t``: tensor memory), given uint8 ``image`` and int32[128, columns] ``memory``.
    ``all_threads``: PTX of every warp before.
    ``pair``: two blocks of a cluster, of which the first executes ``body``; images and tensor memory have two of
    everything, then. With ``check`` among the ``options`` of the capture: its findings."""
    blocks = 2 if pair else 1
    image = np.zeros(16 * blocks, np.uint8) if image is None else np.ascontiguousarray(image).view(np.uint8).reshape(-1)
    size = -(-len(image) // (16 * blocks)) * 16
    image = np.concatenate([image, np.zeros(blocks * size - len(image), np.uint8)])
    given = np.zeros((blocks * LANES, columns), np.int32)
    if memory is not None:
        given[:, : memory.shape[-1]] = memory.reshape(blocks * LANES, -1)
    group = blocks
    commit = _COMMIT.format(group=group)
    text = _TEXT.format(
        target="sm_103a" if gpu == "b300" else "sm_100a", version="9.2" if gpu == "b300" else "8.8", columns=columns, bytes=size, place=IMAGE, row_bytes=4 * columns, body=body,
        all=all_threads, release=_RELEASE.format(columns=columns, group=group) if release else "", group=group,
        cluster=".explicitcluster\n.reqnctapercluster 2" if pair else "", memory_bytes=4 * columns * LANES,
        meet=_MEET if pair else "",
        commit=f"mov.u16 both, 3; {commit}.multicast::cluster.b64 [bar], both;" if pair else f"{commit}.b64 [bar];",
    )  # fmt: skip
    out = np.zeros((blocks * LANES, columns), np.int32)
    trace = gpusim.capture(
        gpusim.ptx(text, "k"), blocks, 128, (image, given.reshape(-1), out.reshape(-1)), gpu=gpu,
        shared_bytes=IMAGE + size, **options,
    )  # fmt: skip
    if options.get("check"):
        return trace.findings
    return out.reshape(2, LANES, columns) if pair else out


def descriptor(offset, leading, stride, layout=0, base=0):
    """A shared-memory descriptor of what begins ``offset`` bytes into the image; strides in bytes."""
    start = IMAGE + offset
    return (start >> 4) | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | base << 49 | layout << 61


def mma(
    kind,
    idesc,
    a,
    b,
    d=0,
    accumulate=True,
    option="",
    meta=None,
    scales=None,
    off=None,
    scale_input=None,
    stationary=False,
    pair=False,
    zeros=None,
):
    """PTX of one tcgen05.mma: ``b`` a descriptor, ``a`` one or ("t", column); ``d``, ``meta``, ``scales``: columns (and
    lanes << 16) of tensor memory; ``off``: words of lanes that are left alone; ``zeros``: a zero-column mask."""
    name = f"tcgen05.mma{'.ws' if stationary else ''}{'.sp' if meta is not None else ''}.cta_group::{1 + pair}.kind::{kind}{option}"
    lines = [f"mov.b32 id, {idesc}; add.u32 x, t, {d};"]
    for register, place in (("da", a), ("db", b)):
        if isinstance(place, tuple):
            lines.append(f"add.u32 y, t, {place[1]};")
            continue
        lines.append(f"mov.b64 {register}, {place}; add.u64 {register}, {register}, sd;")
        if place >> 52 & 1:  # the leading dimension is an address, too
            lines.append(f"shl.b64 o, sd, 16; add.u64 {register}, {register}, o;")
    operands = ["[x]", "[y]" if isinstance(a, tuple) else "da", "db"]
    if meta is not None:
        lines.append(f"add.u32 r10, t, {meta};")
        operands.append("[r10]")
    operands.append("id")
    if scales is not None:
        lines.append(f"add.u32 r11, t, {scales[0]}; add.u32 r12, t, {scales[1]};")
        operands += ["[r11]", "[r12]"]
    if off is not None:
        lines += [f"mov.b32 r{16 + i}, {word};" for i, word in enumerate(off)]
        operands.append("{" + ", ".join(f"r{16 + i}" for i in range(len(off))) + "}")
    operands.append("yes" if accumulate else "no")
    if zeros is not None:
        lines.append(f"mov.b64 o, {zeros};")
        operands.append("o")
    if scale_input is not None:
        operands.append(str(scale_input))
    return "\n".join([*lines, f"{name} {', '.join(operands)};"])
