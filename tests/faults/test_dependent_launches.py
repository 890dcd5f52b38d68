"""What ``--check race`` finds in a launch that may begin before the one before it has ended (programmatic dependent
launch)."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from dependent_kernels import KERNELS, launch, without
from driver_api import Api, parameters

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
