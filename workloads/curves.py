"""Curves to measure on a GPU: one family of points for each parameter of the machine that its shape shows.

Mental model: a plateau or a slope of a curve is a parameter: the latency of a cache is the time a load in a pointer
chase that fits into it, the rate of a pipe the slope of time over rounds, a capacity the place of a knee. The points
are denser than the pinned suites', which only stand where behaviours differ; they are for calibration on silicon
(``tools/record_silicon.py --suite latency``), and may be added to freely. Two lengths of each loop are there so that
what a launch costs can be taken off by difference.
"""

from __future__ import annotations

_OPS = (
    "fadd", "fmul", "ffma", "iadd", "imad", "lop3", "shf", "popc", "flo", "hfma2", "dadd", "dfma", "mufu_rsq", "mufu_ex2",
    "mufu_sin", "frnd", "f2i_i2f", "shfl",
)  # fmt: skip
#: KiB by steps of the square root of two, from within L1 to four times a large L2.
_BUFFERS_KIB = tuple(
    sorted({round(8 * 2 ** (step / 2)) for step in range(31)} | {160, 192, 208, 224, 25600, 28672, 38912, 51200})
)
_FOOTPRINTS_KIB = tuple(
    sorted({512 * round(2 ** (step / 2)) for step in range(2, 17)} | {28672, 40960, 45056, 53248, 57344, 61440})
)

CURVES = {
    # Latency of L1, near and far L2, DRAM, and the knees between them.
    "latency": tuple(("pointer_chase", {"buffer_kib": kib, "loads": 8192}) for kib in _BUFFERS_KIB),
    # Issue and result latency of each pipe, and its rate.
    "pipes": tuple(
        (kernel, {"op": op, "rounds": rounds})
        for op in _OPS
        for kernel, lengths in (("pipe_latency", (64, 256)), ("pipe_throughput", (16, 64)))
        for rounds in lengths
    ),
    # Shared memory, shuffles, barriers, atomics, divergence.
    "sm": (
        *(
            ("bank_conflicts", {"stride": stride, "rounds": rounds})
            for stride in (1, 2, 4, 8, 16, 32)
            for rounds in (16, 64)
        ),
        *(("bank_conflicts", {"stride": 1, "width_bytes": width, "block_threads": 1024}) for width in (4, 8, 16)),
        *(("shared_atomics", {"addresses": n, "rounds": rounds}) for n in (1, 4, 32, 1024) for rounds in (4, 16)),
        *(
            ("barrier", {"block_threads": threads, "rounds": rounds})
            for threads in (32, 64, 256, 1024)
            for rounds in (16, 64)
        ),
        *(("shuffle", {"mode": mode, "rounds": rounds}) for mode in ("idx", "xor") for rounds in (64, 256)),
        *(("divergence", {"paths": paths}) for paths in (1, 2, 8, 32)),
        *(
            ("constant_cache", {"table_bytes": size, "rounds": rounds})
            for size in (1024, 2048, 8192, 65536)
            for rounds in (16, 64)
        ),
        *(
            ("instruction_cache", {"body_instructions": n, "rounds": rounds})
            for n in (512, 2048, 4096, 8192, 16384)
            for rounds in (2, 8)
        ),
    ),
    # L1's data and tag rate by stride; bandwidth of L2 and DRAM by footprint and by warps in flight.
    "bandwidth": (
        *(
            ("l1_stride", {"width_or_stride": stride, "iterations": n})
            for stride in (0, 1, 2, 4, 8, 16, 32)
            for n in (64, 256)
        ),
        *(("l1_read", {"footprint_kib": kib}) for kib in (16, 64, 128, 172, 204, 280, 1152, 8872)),
        *(("l2_read", {"footprint_kib": kib}) for kib in _FOOTPRINTS_KIB),
        *(
            (stream, {"n": 2**24 + 2, "block_threads": threads, "blocks_per_sm": blocks})
            for stream in ("stream_init", "stream_read", "stream_scale", "stream_triad")
            for threads, blocks in ((32, 1), (64, 1), (128, 1), (256, 1), (512, 1), (1024, 1), (1024, 2))
        ),
        *(("coalescing", {"pattern": "stride", "amount": amount}) for amount in (1, 2, 4, 8, 16, 32)),
        *(("coalescing", {"access": "store", "pattern": "stride", "amount": amount}) for amount in (1, 8, 32)),
        *(("l2_atomics", {"stride": stride, "returning": back}) for stride in (0, 1, 8, 32) for back in (False, True)),
    ),
    # What a block costs: waves of tiny blocks, and blocks that fill an SM by shared memory.
    "dispatch": (
        *(("saxpy", {"n": 256 * blocks, "block_threads": 256}) for blocks in (1, 132, 1056, 4224, 16896)),
        *(("occupancy_ramp", {"blocks_per_sm": n}) for n in (1, 2, 4, 8)),
    ),
}
