"""The link between L2's halves against streams that were measured: each way it carries a quarter of what they move."""

from __future__ import annotations

import pytest

from gpusim.gpus.load import load_gpu


@pytest.mark.parametrize(
    ("gpu", "measured_bytes_per_ns"),
    [
        ("h200", 4408.0),  # NVIDIA/cccl pull request 2086: two arrays are added, 2^24 and 2^28 elements of 16 bytes
        ("h20", 4190.0),  # FlagGems pull request 5152, sums in place of 2^30 floats (the board of 141 GB)
        ("gh200", 3942.0),  # RRZE stream init
        ("h100", 3010.0),  # JMS, reads
        ("h100_pcie", 2016.0),  # RRZE stream init
        ("a100_80gb", 1900.0),  # RRZE stream init
    ],
)
def test_the_link_between_the_halves_carries_what_a_measured_stream_sends_over_it(gpu, measured_bytes_per_ns):
    """SMs and homes lie in either half alike: half of a stream crosses, as much one way as the other."""
    l2 = load_gpu(gpu).l2
    assert l2.partitions == 2 and l2.partition_link_bytes_per_ns > measured_bytes_per_ns / 4
