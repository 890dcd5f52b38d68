"""Copies to shared memory that fill with zeros, and barrier objects, as the PTX assembler compiles them."""

import numpy as np
import pytest

ptx_harness = pytest.importorskip("ptx_harness", reason="needs the CUDA wheels")

LANES = 32
COPIES = """
.shared .align 16 .b8 tile[4096];
{{ .reg .b32 %row, %size, %v<4>; .reg .b64 %source; .reg .pred %odd;
mov.u32 %row, tile; mad.lo.u32 %row, %thread, 96, %row;
.reg .b32 %mark; mov.u32 %mark, -1;
{marks}
ld.global.u32 %size, [%in+{size_at}];
mul.wide.u32 %step, %thread, 8; sub.u64 %source, %in, %step; mul.wide.u32 %step, %thread, 96; add.u64 %source, %source, %step;
cp.async.ca.shared.global [%row], [%source], 16, %size;
cp.async.cg.shared.global [%row+16], [%source+16], 16, %size;
.reg .b32 %small; min.u32 %small, %size, 8; cp.async.ca.shared.global [%row+32], [%source+32], 8, %small;
min.u32 %small, %size, 4; cp.async.ca.shared.global [%row+48], [%source+48], 4, %small;
and.b32 %small, %thread, 1; setp.eq.u32 %odd, %small, 1;
cp.async.ca.shared.global [%row+64], [%source+64], 16, %odd;
cp.async.ca.shared.global [%row+80], [%source+80], 16;
cp.async.commit_group; cp.async.wait_all; bar.sync 0;
{stores}
}}
"""


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (12, 0)])
def test_what_is_not_copied_is_zero(monkeypatch, capability):
    body = COPIES.format(
        marks=" ".join(f"st.shared.u32 [%row+{4 * i}], %mark;" for i in range(24)),
        size_at=8 * LANES * 12,
        stores=" ".join(f"ld.shared.u32 %v0, [%row+{4 * i}]; st.global.u32 [%out+{256 * i}], %v0;" for i in range(24)),
    )
    text = ptx_harness.grouped_text([], ptx_harness.architecture_of(capability), body)
    rng = np.random.default_rng(2)
    data = rng.integers(1, 2**63, (12, LANES), dtype=np.uint64)
    sizes = np.array([0, 1, 3, 4, 7, 8, 12, 15, 16, 5, 2, 11] * 3, np.uint64)[:LANES]
    out = ptx_harness.run_text(monkeypatch, text, 24, np.vstack([data, sizes]), capability).astype(np.uint32)
    rows = data.reshape(-1).view(np.uint8).reshape(LANES, 96)
    for lane in range(LANES):
        n = int(sizes[lane])
        expected = np.full(96, 0xFF, np.uint8)
        for start, width, count in ((0, 16, n), (16, 16, n), (32, 8, min(n, 8)), (48, 4, min(n, 4))):
            expected[start : start + width] = 0
            expected[start : start + count] = rows[lane, start : start + count]
        expected[64:80] = 0 if lane & 1 else rows[lane, 64:80]
        expected[80:] = rows[lane, 80:]
        got = np.ascontiguousarray(out[:, lane]).view(np.uint8)
        assert (got == expected).all(), f"lane {lane}, {n} bytes"


BARRIER = """
.shared .align 8 .b64 object; .shared .align 4 .b32 mail[64];
{ .reg .b32 %at, %box, %other, %v, %w, %n; .reg .b64 %state; .reg .pred %done, %first;
mov.u32 %at, object; mov.u32 %box, mail; mad.lo.u32 %box, %thread, 4, %box;
setp.eq.u32 %first, %thread, 0;
@%first mbarrier.init.shared.b64 [%at], 64;
bar.sync 0;
mov.u32 %n, 0;
again:
xor.b32 %other, %thread, 63; mul.lo.u32 %other, %other, 4; mov.u32 %w, mail; add.u32 %other, %other, %w;
mad.lo.u32 %v, %n, 1000, %thread;
st.shared.u32 [%box], %v;
mbarrier.arrive.shared.b64 %state, [%at];
wait: mbarrier.try_wait.shared.b64 %done, [%at], %state; @!%done bra wait;
ld.shared.u32 %v, [%other];
mbarrier.arrive.shared.b64 %state, [%at];
wait2: mbarrier.try_wait.shared.b64 %done, [%at], %state; @!%done bra wait2;
add.u32 %n, %n, 1; setp.lt.u32 %done, %n, 3; @%done bra again;
st.global.u32 [%out], %v;
}
"""


@pytest.mark.parametrize("capability", [(9, 0), (10, 0), (12, 0)])
def test_a_barrier_object_holds_all_threads_of_its_phase(monkeypatch, capability):
    text = ptx_harness.grouped_text([], ptx_harness.architecture_of(capability), BARRIER)
    out = ptx_harness.run_text(monkeypatch, text, 1, np.zeros((1, 64), np.uint64), capability)
    assert (out[0] == 2000 + (np.arange(64) ^ 63)).all()


POLICY = """
{ .reg .b64 %policy; .reg .b32 %v;
createpolicy.fractional.L2::evict_last.b64 %policy, 1.0;
ld.global.L2::cache_hint.u32 %v, [%in], %policy;
st.global.u32 [%out], %v; }
"""


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (12, 0)])
def test_a_load_with_a_cache_policy_is_a_load(monkeypatch, capability):
    text = ptx_harness.grouped_text([], ptx_harness.architecture_of(capability), POLICY)
    data = np.arange(LANES, dtype=np.uint64).reshape(1, LANES) * 77
    assert (ptx_harness.run_text(monkeypatch, text, 1, data, capability) == data).all()
