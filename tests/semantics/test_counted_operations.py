"""Which operations a report counts: what a kernel's author would, not how the compiler brings numbers into
registers."""

from types import SimpleNamespace

import numpy as np

from gpusim.model import counters as count
from gpusim.model.stall_reasons import SELECTED, STALL_NAMES
from gpusim.report.roofline import operations


def test_a_number_put_into_a_register_by_the_fp16_pipe_is_no_operation() -> None:
    texts = (
        "HFMA2.MMA R3, -RZ, RZ, 0, 1.875",
        "@P0 HFMA2 R4, -RZ, RZ, 1, 1",
        "HFMA2.MMA R3, R4, R5, R6",
        "FFMA R1, R2, R3, R4",
    )
    work, stalls = np.zeros((4, 64), np.int64), np.zeros((4, len(STALL_NAMES)), np.int64)
    work[:, count.THREAD_INSTRUCTIONS], stalls[:, SELECTED] = 32, 1
    program = SimpleNamespace(texts=texts, instructions={"matrix_macs": np.zeros(4, np.int64)})
    launch = SimpleNamespace(program=program, work_by_instruction=work, stalls_by_instruction=stalls)
    assert operations([launch]) == {"FP16": 3 * 4 * 32, "FP32": 2 * 32}
    assert operations([launch], executed=False) == {"FP16": 4 * 32, "FP32": 2 * 32}
