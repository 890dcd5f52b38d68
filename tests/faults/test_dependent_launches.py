"""What ``--check race`` finds in a launch that may begin before the one before it has ended (programmatic dependent launch)."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from driver_api import Api, parameters

SERIALIZATION = 6
#: ``first`` writes 128 words and lets its dependents begin before; ``second`` adds 1 to them into another array; a test takes lines away.
KERNELS = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry first(.param .u64 out) {
  .reg .b64 %p, %s; .reg .b32 %t;
  ld.param.u64 %p, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %s, %t, 4; add.u64 %p, %p, %s;
  griddepcontrol.launch_dependents; //trigger
  st.global.u32 [%p], %t;
  ret;
}
.visible .entry second(.param .u64 in, .param .u64 out, .param .u64 own) {
  .reg .b64 %i, %o, %s, %w; .reg .b32 %t, %v, %u; .reg .pred %first;
  .shared .align 16 .b8 tile[512]; .shared .align 8 .b64 bar;
  ld.param.u64 %i, [in]; ld.param.u64 %o, [out]; ld.param.u64 %w, [own]; mov.u32 %t, %tid.x; mul.wide.u32 %s, %t, 4;
  add.u64 %i, %i, %s; add.u64 %o, %o, %s; add.u64 %w, %w, %s; setp.lt.u32 %first, %t, 32;
  ld.global.u32 %u, [%w];
  griddepcontrol.wait; //wait
  //each
  ld.global.u32 %v, [%i]; add.u32 %v, %v, %u; st.global.u32 [%o], %v;
  ret;
}
"""
BULK = """mov.u32 %v, bar; @!%first bra DONE; setp.eq.u32 %first, %t, 0;
  @%first mbarrier.init.shared.b64 [%v], 1; @%first mbarrier.arrive.expect_tx.shared.b64 _, [%v], 512;
  @%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%i], 512, [%v]; DONE:
  griddepcontrol.wait;"""


def run(second: str, first: str = KERNELS, programmatic: int = 1, between: bool = False) -> list[dict]:
    api = Api("h200")
    api.ledger.wanted = replace(api.ledger.wanted, checks=frozenset({"race"}))
    data, out, own = (api.upload(np.full(128, value, np.int32)) for value in (7, 0, 1))
    words = [ctypes.c_uint64(each) for each in (data, out, own)]
    launch(api, api.kernel(first, "first"), parameters(words[0]), 0)
    if between:
        api.cuMemcpyDtoD(out, own, 512)
    launch(api, api.kernel(second, "second"), parameters(*words), programmatic)
    np.testing.assert_array_equal(api.download(out, np.int32, 128), np.arange(128) + 1)
    return api.ledger.findings


def launch(api: Api, kernel: int, values: int, programmatic: int) -> None:
    attributes = (ctypes.c_uint64 * 9)(SERIALIZATION, programmatic)
    raw = (ctypes.c_uint64 * 7)(1 | 1 << 32, 1 | 128 << 32, 1 | 1 << 32, 0, 0, ctypes.addressof(attributes), 1)
    api.cuLaunchKernelEx(ctypes.addressof(raw), kernel, values, 0)


def without(line: str) -> str:
    return "\n".join(each for each in KERNELS.splitlines() if f"//{line}" not in each)


def test_a_missing_wait_is_found_with_both_instructions() -> None:
    (found,) = run(without("wait"))
    assert found["what"] == "Read before griddepcontrol.wait of what the launch before writes"
    assert found["kernel"] == "second" and found["launch"] == 2 and found["count"] == 128
    assert "LDG" in found["where"] and "STG" in found["other_where"] and "first may still run" in found["detail"]
    assert found["block"] == found["thread"] == "(0, 0, 0)"


def test_a_write_and_a_bulk_load_before_the_wait_are_found() -> None:
    early = KERNELS.replace("griddepcontrol.wait; //wait", "st.global.u32 [%i], %t; griddepcontrol.wait;")
    assert [each["what"] for each in run(early)] == [
        "Write before griddepcontrol.wait of what the launch before writes"
    ]
    (found,) = run(KERNELS.replace("griddepcontrol.wait; //wait", BULK))
    assert found["what"].startswith("Read before griddepcontrol.wait") and "UBLKCP" in found["where"]


@pytest.mark.parametrize(
    "options",
    [
        {"second": KERNELS},
        {"second": without("wait"), "programmatic": 0},
        {"second": without("wait"), "first": without("trigger")},  # it has ended when the second begins
        {"second": without("wait"), "between": True},  # what lies between waits for both
        {"second": KERNELS.replace("griddepcontrol.wait; //wait", "@%first griddepcontrol.wait; bar.sync 0;")},
    ],
)
def test_nothing_is_found_where_the_order_is_kept(options: dict) -> None:
    assert not run(**options)
