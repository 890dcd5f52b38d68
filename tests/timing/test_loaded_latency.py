"""Does the simulated DRAM keep reads waiting longer the more it is asked for?"""

from __future__ import annotations

from gpusim.gpus import load_gpu, override_gpu
from tools.loaded_latency import PATTERNS, mean_wait_ns


def test_a_read_waits_longer_the_more_are_under_way() -> None:
    gpu = load_gpu("a40")
    few, some, many = (mean_wait_ns(gpu, *PATTERNS["a stream"], share) for share in (0.1, 0.5, 0.9))
    assert few is not None and some is not None and many is not None and few < some < many


def test_rows_in_their_order_keep_a_stream_waiting_less_near_the_rate() -> None:
    orders = [override_gpu(load_gpu("a40"), [f"dram.scattered_rows={rows}"]) for rows in (256, 1)]
    waits = [mean_wait_ns(gpu, *PATTERNS["a stream"], 0.8) for gpu in orders]
    assert waits[0] is not None and waits[1] is not None and waits[0] > 1.2 * waits[1]


def test_pieces_at_random_places_never_come_at_the_rate_of_a_stream() -> None:
    assert mean_wait_ns(load_gpu("a40"), *PATTERNS["random 64 B"], 0.9) is None
