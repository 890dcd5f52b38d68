"""A GPU with fewer SMs: as much less of all that SMs share, and a load that waits for nobody takes as long as on the
whole."""

import numpy as np
import pytest

from gpusim.cases.suite import capture_case, make_case
from gpusim.engine.gpu import simulate
from gpusim.gpus import list_gpus, load_gpu
from gpusim.gpus.consistency import check_consistency
from gpusim.gpus.cut_down import cut_down


@pytest.mark.parametrize("name", list_gpus())
def test_what_sms_share_goes_by_their_number(name):
    whole = load_gpu(name)
    for sms in (1, 2, 5, whole.sm_count // 2, whole.sm_count):
        part, share = cut_down(whole, sms), sms / whole.sm_count
        check_consistency(part, part.name)
        assert part.sm_count == sms
        assert part.dram.peak_bytes_per_ns == pytest.approx(share * whole.dram.peak_bytes_per_ns)
        for rate in ("slice_bytes_per_ns", "slice_write_bytes_per_ns"):
            of_all = share * whole.l2.slices * getattr(whole.l2, rate)
            assert part.l2.slices * getattr(part.l2, rate) == pytest.approx(of_all)
        a_set = part.l2.slices * part.l2.ways * part.l2.line_bytes
        assert abs(part.l2.total_bytes - share * whole.l2.total_bytes) < a_set


@pytest.mark.parametrize("name", list_gpus())
def test_all_sms_are_the_gpu_itself(name):
    whole = load_gpu(name)
    assert cut_down(whole, whole.sm_count).l2 == whole.l2
    assert cut_down(whole, whole.sm_count).dram == whole.dram


@pytest.mark.parametrize("name", ("a100_pcie_40gb", "h200"))
def test_one_warp_takes_as_long_as_on_the_whole(name):
    """With as many slices and channels as before, each as much slower, it took 1.8 times as long on two SMs."""
    whole = load_gpu(name)
    trace = capture_case(make_case("saxpy", {"n": 32}, whole), whole)[-1].trace
    alone = [simulate(trace, gpu=spec).cycles for spec in (whole, cut_down(whole, 2), cut_down(whole, 8))]
    assert np.ptp(alone) < 0.06 * alone[0], alone


@pytest.mark.parametrize("sms", (0, 109))
def test_more_sms_than_there_are_is_refused(sms):
    with pytest.raises(ValueError, match=f"{sms} of 108"):
        cut_down(load_gpu("a100_40gb"), sms)
