"""What only a GPU can answer: each open question of the timing model with the launches that answer it.

    python tools/silicon_questions.py [--only WORD] [--format table|json|csv|md]
    tools/silicon_session.sh questions OUT          # on a machine with a GPU: measures all of them

Mental model: a :class:`Question` is a doubt about one mechanism or figure of a GPU's description. Its ``points`` are
launches of the suite whose times differ in that alone; ``reading`` says how the answer is seen in them, before anybody
has measured, so that no result can be explained afterwards to fit. Two numbers of rounds are there where what a launch
costs must be taken off. ``decides`` names the keys of the description that the answer sets.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from gpusim.report.tables import FORMATS, format_records

Point = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Question:
    """``points``: launches of the suite as (kernel, axes that differ from its default)."""

    name: str
    asks: str
    reading: str
    decides: tuple[str, ...]
    points: tuple[Point, ...]


def _code(kib: tuple[int, ...], threads: int, blocks: int = 1) -> tuple[Point, ...]:
    return tuple(
        (
            "instruction_cache",
            {"body_instructions": size * 64, "rounds": rounds, "block_threads": threads, "blocks": blocks},
        )
        for size in kib
        for rounds in (2, 8)
    )


QUESTIONS = (
    Question(
        "code of one warp",
        "How much code do the instruction caches of this GPU hold, and how fast does a loop run that they do not hold?",
        "Cycles a line of eight instructions, by the difference of the rounds: 8 where the first cache holds the loop. Each rise begins at a "
        "capacity and ends a way further (5/4 of it: four ways). An RTX 3060 shows 8.0 up to 64 KiB, 16.7 from 80, 35.6 from 160; an H100 27 more "
        "beyond 128 KiB, a B200 8.5 more beyond 32 and 32 more beyond 128. What an A100 shows is a guess.",
        (
            "instruction_cache.l0_bytes",
            "instruction_cache.l1_bytes",
            "instruction_cache.l0_ways",
            "instruction_cache.l1_ways",
            "instruction_cache.l0_miss_cycles",
            "instruction_cache.l1_miss_cycles",
            "instruction_cache.l15_bytes",
            "instruction_cache.l15_ways",
            "instruction_cache.l15_hit_cycles",
            "instruction_cache.l1_fetch_lines",
            "instruction_cache.l15_fetch_lines",
            "instruction_cache.stream_entries",
        ),
        _code((8, 12, 14, 16, 20, 24, 28, 32, 36, 40, 48, 60, 64, 72, 80, 96, 120, 128, 136, 144, 160, 192), 32),
    ),
    Question(
        "code of many warps",
        "Do warps that run the same loop bring its lines for one another, and what does the SM's cache give to four sub-cores?",
        "As above. Equal to one warp a sub-core (128 threads): the port is no limit. With 512 threads (four warps a sub-core, each of which could "
        "issue in another's misses): 8 cycles a warp's line and less is full issue; a plateau that grows with the warps is the port's rate.",
        (
            "instruction_cache.l1_interval_cycles",
            "instruction_cache.streams",
            "instruction_cache.stream_entries",
            "instruction_cache.l0_bytes",
        ),
        (*_code((12, 24, 48, 96, 192), 128), *_code((12, 24, 48, 96, 192), 512), *_code((96,), 512, 132)),
    ),
    Question(
        "a barrier between loading and computing",
        "Blocks load a tile, meet at a barrier and compute: do the phases of an SM's blocks overlap on silicon as much as simulated? "
        "A tuned convolution on an A100 is 10 to 28 % slower than predicted where rows of threads are long and blocks few; what it loses goes with the "
        "generations of blocks on an SM, not with the number of loads (docs/validation/notes/cores.md).",
        "Time against the block's rows at an equal number of threads a SM. What silicon loses from many small blocks to few large ones, beyond "
        "what is simulated, is the phases' overlap; the same loss without the barrier's loads (barrier, alone) is the barrier's own.",
        ("l1.barrier_latency_cycles", "launch.block_turnaround_cycles"),
        (
            *(("stencil2d", {"rows": 4096, "columns": 4096, "block_y": y}) for y in (4, 8, 16, 32)),
            *(("barrier", {"block_threads": t, "rounds": r}) for t in (32, 128, 512, 1024) for r in (16, 64)),
            *(("occupancy_ramp", {"blocks_per_sm": n, "block_threads": 256, "blocks": 2112}) for n in (1, 2, 4, 8)),
        ),
    ),
    Question(
        "streams that lie megabytes apart",
        "What do DRAM's rows and banks lose when one, two, three or four streams are read and written at once?",
        "GB/s of the same bytes by one stream (read, init), two (scale) and four (triad), arrays that end within a row and ones that do not. Less "
        "with the number of reading streams alone is row locality; less with writes among them is the change of direction. Published of an A100 40 GB: "
        "one stream 1,490 to 1,503, copy 1,381 to 1,400, three and four streams 1,358 to 1,377, two of reads alone 1,353, two of reads for each of 864 "
        "blocks 1,372: any second stream costs 8 to 10 %, whatever it does. An A40 loses nothing by its reads, 4 % by writes among them.",
        ("dram.efficiency", "dram.read_write_turnaround_ns", "dram.row_bytes"),
        tuple(
            (kernel, {"n": n, "block_threads": 1024, "blocks_per_sm": 2})
            for kernel in ("stream_read", "stream_init", "stream_scale", "stream_triad", "stencil3")
            for n in (2**25, 2**25 + 2, 2**25 + 2**17 + 2)
        ),
    ),
    Question(
        "wide reads of shared memory",
        "How many passes does a shared load of 8 or 16 bytes take where lanes share words, and where they do not?",
        "Cycles a load, by the difference of the rounds, at 1,024 threads (rate) and 32 (latency): stride 0 is one word for all. A rate that follows "
        "the distinct words alone is full broadcast within the instruction; one that follows half or quarter warps is not.",
        ("l1.bank_count", "l1.bank_bytes", "l1.write_back_bytes_per_cycle"),
        tuple(
            ("bank_conflicts", {"stride": s, "width_bytes": w, "rounds": r, "block_threads": t})
            for s in (0, 1, 2)
            for w in (4, 8, 16)
            for r in (16, 64)
            for t in (32, 1024)
        ),
    ),
    Question(
        "register tiles",
        "How near to the FP32 peak do products from registers come, of which operands of one bank and the reuse cache decide?",
        "Cycles a multiply-add and sub-core, by the difference of the depths. Above what issue and shared memory allow, it is the register file: the "
        "what-if register_file.bank_conflicts=false says how much of it is simulated.",
        ("register_file.reads_per_bank", "pipes.fma.interval_cycles"),
        (
            *(
                ("sgemm_register", {"m": 1024, "n": 1024, "k": k, "tile": tile})
                for k in (128, 512)
                for tile in (32, 64)
            ),
            *(("pipe_throughput", {"op": op, "rounds": r}) for op in ("ffma", "imad", "iadd", "lop3") for r in (4, 12)),
        ),
    ),
    Question(
        "how latency grows before DRAM is busy",
        "What makes a wave of blocks of several streams slower from a few warps on: banks that streams share, writes, or the way into an SM?",
        "Nanoseconds a wave, threads x bytes over the rate, against threads. The slope of reads alone is the way into an SM (a GH200 shows 0.13 ns a "
        "thread); what scale adds is its writes, and what triad adds beyond the bytes is its streams. Simulated on GH200, triad of 448 threads x 2 takes "
        "1,022 ns, measured 1,188.",
        (
            "l1.fill_bytes_per_cycle",
            "dram.banks_per_channel",
            "dram.write_high_entries",
            "dram.read_write_turnaround_ns",
        ),
        tuple(
            (kernel, {"n": 1 << 28, "block_threads": threads, "blocks_per_sm": 2})
            for kernel in ("stream_read", "stream_scale", "stream_triad")
            for threads in (64, 128, 256, 448, 640, 1024)
        ),
    ),
    Question(
        "the carve-out of kernels without shared memory",
        "How much of the array does the driver keep from the L1, by the number of blocks that would fit? Profiles show 8.19, 16.38 and 32.77 kB for the "
        "same launch on different chips.",
        "Cycles a load: the buffer at which they begin to rise is the array less the carve-out less what the SM keeps. One thread's (as many blocks "
        "as fit) and 1,024 threads' rise lie as far apart as their carve-outs; what is left at 1,024 threads is the SM's own.",
        ("sm.shared_carveout_reserved_bytes", "l1.reserved_bytes"),
        tuple(
            ("pointer_chase", {"buffer_kib": kib, "loads": 131072, "block_threads": threads})
            for kib in (84, 96, 108, 120, 148, 160, 172, 184, 212, 224, 236, 248)
            for threads in (1, 256, 1024)
        ),
    ),
    Question(
        "global loads that hit in the L1",
        "What does a GA10x SM charge for a load of one word for all lanes, and for loads that hit a line which is still on its way? The product of an "
        "element a thread (one such load and one of a full line a multiply-add) took 4.87 cycles a warp's step on an RTX A6000 taken at 1,800 MHz, "
        "where 4.2 are simulated and two loads at the L1's rate are 4.",
        "Cycles a warp load of strides 0 and 1, by the difference of the iterations: equal, and 2 each (1 on A100 and Hopper), if a word for all "
        "lanes costs no more than a line. The product's step, by the difference of k, above twice that: 32 warps of a block all wait for the same new line.",
        ("l1.accept_interval_cycles", "l1.tag_banks", "l1.fill_bytes_per_cycle"),
        (
            *(("l1_stride", {"width_or_stride": s, "iterations": i}) for s in (0, 1) for i in (64, 256)),
            *(("matmul_naive", {"m": 1024, "n": 1024, "k": k, "block_x": 32, "block_y": 32}) for k in (256, 1024)),
        ),
    ),
    Question(
        "the knee of the L1",
        "What does a block find again of an array that is 1.0 to 2 times as large as the L1, and which warps find it: do some run ahead of the others, "
        "and keep their lines?",
        "Bytes a clock against the footprint. One warp (32 threads) has nobody to run ahead of: if it finds a share too, it is how lines are replaced, not "
        "how warps advance. 128 threads are one warp a sub-core: a share there means that room for misses goes to the sub-cores in an order; a share with 256 and "
        "none with 128, that it goes to the warps of a sub-core in one. A difference between 4 and 64 laps is the time that it takes to part. One block alone leaves "
        "L2 idle: a share there means that the limit on what is in flight is the SM's, none that L2 or the crossbar holds requests back. With 512 threads, four "
        "warps a sub-core: where the share ends says how many of them run ahead.",
        ("l1.reserved_bytes", "l1.ways", "l1.miss_entries"),
        (
            *(
                ("l1_read", {"footprint_kib": kib, "laps": laps})
                for kib in (160, 200, 236, 260, 296, 328)
                for laps in (4, 64)
            ),
            *(
                ("l1_read", {"footprint_kib": kib, "laps": laps, "blocks": n, "block_threads": threads, "operands": 1})
                for kib in (120, 148, 192, 236, 280, 328, 384)
                for threads in (32, 128, 256)
                for laps, n in ((4, 132), (64, 132), (64, 1))
            ),
        ),
    ),
    Question(
        "a fence beside loads",
        "How long does a fence of the GPU's scope take that four warps of an SM make at once, and one while other warps of the SM, or of all SMs, wait for "
        "loads? A B300's takes 277 to 292 cycles alone and 783 beside writes of the whole chip; what a B200's clusters lose between tiles is as if one took 760.",
        "Cycles a fence, by the difference of the rounds. Equal for one, two and four warps: fences do not follow one another; twice and four times as long: they "
        "do. More with loads by the warps that make no fence (fencing 1 of 128 threads) than without them: a fence waits for what its SM has asked for. More with 132 "
        "blocks than with one: it is what L2 and the way between the dies have to do. With a load before each fence (lines 1): the sum of both is one behind the other.",
        ("crossbar.request_latency_ns", "l2.hit_latency_ns", "l2.far_hit_extra_ns"),
        tuple(
            (
                "fence",
                {"rounds": rounds, "block_threads": threads, "fencing": fencing, "lines": lines, "blocks": blocks},
            )
            for blocks in (1, 132)
            for threads, fencing, lines in ((32, 1, 0), (64, 2, 0), (128, 4, 0), (128, 1, 0), (32, 1, 1), (128, 4, 1))
            for rounds in (16, 64)
        ),
    ),
    Question(
        "atomics that meet",
        "How long does an atomic unit of L2 keep lanes that add to one word, by what they add, and the sectors of a request; how many units do the lines of 1 KiB "
        "have? Set from an H100, a B300 and a GB202 (gpusim/model/l2_atomics.py); of an A100 both are guesses, as is that floats take on one word what integers do.",
        "Time a lane, by the difference of the updates. One word: the interval. 2 and 8 words of a sector: a half and an eighth of it, so a pass does all words of a "
        "sector; 32: four sectors' time a warp. 256 words: half of that a warp if eight lines have two units, an eighth if each has its own. 4,096 words: as many "
        "units as there are KiB, twice. Floats or doubles that take longer than integers on one word, not on 65,536: their additions wait for one another.",
        ("l2.atomic_interval_ns", "l2.atomic_sector_ns"),
        tuple(
            ("atomic_contention", {"form": form, "addresses": addresses, "updates": updates})
            for form in ("int32_add", "float32_add", "float64_add")
            for addresses in (1, 2, 8, 32, 256, 4096, 65536)
            for updates in (4, 16)
        ),
    ),
)

#: Every launch of every question, for tools/record_silicon.py --suite questions.
POINTS: tuple[Point, ...] = tuple(point for question in QUESTIONS for point in question.points)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", default="", metavar="WORD", help="Only questions whose name contains this.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(only: str, form: str) -> None:
    """List the open questions: what is asked, how the answer is seen, what it decides.

    Example:
      python tools/silicon_questions.py --only code --format md
    """
    chosen = [question for question in QUESTIONS if only in question.name]
    if not chosen:
        raise click.UsageError(f"no question's name contains {only!r}: {', '.join(each.name for each in QUESTIONS)}")
    records = [
        {
            "question": each.name,
            "asks": each.asks,
            "reading": each.reading,
            "decides": " ".join(each.decides),
            "launches": len(each.points),
        }
        for each in chosen
    ]
    click.echo(format_records(records, form))


if __name__ == "__main__":
    main()
