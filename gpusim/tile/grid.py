"""The blocks of a tiled product on the machine: who loads what when, and how long each waits.

Mental model: a block works through its tile's depth in steps, and loads ``stages`` of them ahead. Each load goes
through its SM's port, L2 and, where no block had that piece within the last L2-ful of bytes, DRAM; each of these serves
one request after the other at its rate. A step's arithmetic begins when its operands have come and the SM's tensor
cores are free. So waves, tails, reuse in L2 and contention come out of who asks when. Steps are worked on in groups
where there are many, their loads then arrive while the group is worked on.

A collective beside it began before: its channels hold an SM each, on which no block of the product has place (NCCL's
have 640 threads of 96 registers), until it ends; its pieces go over the links one after the other, and through DRAM as
the product's loads do: each waits for the other's bytes, but that SMs are served in turn.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np

from gpusim.io.jit_cache import kept

#: Loads of blocks' groups of steps that a simulation is cut into, about.
EVENTS = 2500
#: Rows of tiles that neighbours in the order of blocks share out among them, so that what they load is found in L2.
RASTER_ROWS = 8
#: Share of what L2 keeps that the loads of a wave's groups of steps take at most.
GROUP_SHARE = 0.5
_RING = 64
#: What a block does between two tiles: another block starts, its loads run ahead, its products too (into a second
#: accumulator).
STARTS_ANEW, LOADS_AHEAD, MULTIPLIES_AHEAD = 0.0, 1.0, 2.0
_NEVER = -1e30


#: No collective beside a product.
ALONE = np.zeros(0)
#: Of one: SMs that it holds, pieces (0: until the product has ended), cycles of a piece on the links, bytes of a piece
#: in DRAM.
_CHANNELS, _PIECES, _PIECE_CYCLES, _PIECE_BYTES = range(4)


#: What the numbers of :func:`run_beside` are, in order: it is compiled for these alone, however they are given.
_KINDS = (*(int,) * 8, *(float,) * 3, int, *(float,) * 16, int, int, float, int)


def run_groups(group_rows: np.ndarray, *product: float) -> tuple[float, float, float, float]:
    """:func:`run_beside` without a collective: (cycles, bytes from L2, bytes from and to DRAM, cycles of one SM's
    tensor cores)."""
    return run_beside(group_rows, *product, ALONE)[:4]


def run_beside(group_rows: np.ndarray, *product_and_beside: Any) -> tuple[float, float, float, float, int, float]:
    """:func:`_run` of numbers of any type, in the order of its arguments."""
    *product, beside = product_and_beside
    return _compiled(group_rows, *(kind(each) for kind, each in zip(_KINDS, product, strict=True)), beside)


@kept
def _run(
    group_rows, columns, depth, tile_rows, tile_columns, tile_depth, stages, blocks, splits, bytes_in_a,
    bytes_in_b, bytes_out, sm_count, flops_per_cycle, fill_rate, l2_rate, dram_rate, l2_latency, dram_latency, l2_bytes, cold_a, cold_b,
    step_cycles, start_cycles, epilogue_cycles, epilogue_rate, shared_loads, outside_loads, outside_fill, box_rows, cluster_rows, overlap, events, beside,
):  # fmt: skip
    """Cycles from the first load to the last store of products in one launch, and what was moved.

    ``group_rows``: of each product's result; all have ``columns`` and ``depth``, and operands of their own.
    ``bytes_in_a``, ``bytes_in_b``,
    ``bytes_out``: an element of the operands and of the result; ``cold_a``, ``cold_b``: the share of the operand that
    is not in L2 at the start; rates are bytes (or operations) a cycle. ``outside_loads``: what a row (or column)
    outside of an operand takes of L2 where others of its box, of ``box_rows`` rows, lie inside, as many rows inside,
    ``outside_fill``: of its SM's port; ``cluster_rows``: tiles that lie below one another are launched together, of
    which some may be empty; what they share, and boxes of fewer rows than a tile, L2 delivers once for all of them.
    ``overlap``: what a block does between two tiles (:data:`STARTS_ANEW`, :data:`LOADS_AHEAD`,
    :data:`MULTIPLIES_AHEAD`). ``beside``: a collective that runs from the start, float64[4] (SMs that it holds, at
    least one, fewer than all; pieces, 0 for until the product ends; cycles and DRAM bytes of a piece), or ALONE.
    Returns (cycles, bytes from L2, bytes from and to DRAM of the product, cycles of one SM's tensor cores, pieces of
    the collective that are done, cycles until the last of them is)."""
    grid_columns = (columns + tile_columns - 1) // tile_columns
    # Of each product the first of its rows of tiles, in the order of the launch.
    first_row = np.zeros(len(group_rows) + 1, np.int64)
    for which in range(len(group_rows)):
        first_row[which + 1] = first_row[which] + (group_rows[which] + tile_rows - 1) // tile_rows
        first_row[which + 1] += (first_row[which] - first_row[which + 1]) % cluster_rows
    tiles = first_row[-1] * grid_columns * splits
    part = (depth + splits - 1) // splits
    steps = (part + tile_depth - 1) // tile_depth
    channels = int(beside[_CHANNELS]) if len(beside) else 0
    # Places of the channels' SMs, which take no block yet, beside those that do.
    slots = min(sm_count * blocks, tiles + channels * blocks)
    # Of a block that loads no step ahead each load is waited for, so that steps are not worked on together.
    group = max(1, min(steps, tiles * steps // events)) if stages > 1 else 1
    # Blocks of a wave ask for the same piece one after the other: what all of them load in a group has to stay in L2
    # meanwhile, as what they load in a step does.
    running = max(1, min(tiles, sm_count * blocks) // splits)
    wave_rows = min(RASTER_ROWS, first_row[-1], running)
    wave_columns = min(grid_columns, (running + wave_rows - 1) // wave_rows)
    step_bytes = splits * tile_depth * (wave_rows * tile_rows * bytes_in_a + wave_columns * tile_columns * bytes_in_b)
    group = max(1, min(group, int(l2_bytes * GROUP_SHARE / step_bytes)))
    groups = (steps + group - 1) // group
    ring = min(_RING, stages // group + 2)

    # Blocks of a cluster load a box of the first operand's rows each, tiles below one another a part of the second
    # operand each; multicast gives all of it to all of them.
    own_a, own_b = min(1.0, box_rows / tile_rows), 1.0 / cluster_rows
    seen_a = np.full((first_row[-1], groups * splits), _NEVER if cold_a > 0.0 else 0.0)
    seen_b = np.full((len(group_rows) * grid_columns, groups * splits), _NEVER if cold_b > 0.0 else 0.0)
    # What a cluster loads comes to all of its blocks when it comes from DRAM, so that none runs ahead of the others.
    came_a, came_b = np.zeros_like(seen_a), np.zeros_like(seen_b)
    fetched = 0.0
    l2_free = 0.0
    dram_free = 0.0
    l2_moved = 0.0
    dram_moved = 0.0
    arithmetic = 0.0
    port_free = np.zeros(sm_count)
    tensor_free = np.zeros(sm_count)
    own_free = np.zeros(slots)
    begins = np.zeros((slots, ring))
    ends = np.zeros((slots, ring))
    tile_of = np.zeros(slots, np.int64)
    group_of = np.zeros(slots, np.int64)
    # Groups that a persistent block has loaded for tiles before this one, and when it has stored the one before.
    before = np.zeros(slots, np.int64)
    stored_at = np.zeros(slots)
    following = 0
    left = tiles
    pieces = 0
    piece_end = 0.0
    part_free = 0.0
    queue = [(0.0, -1)]
    if not len(beside):
        queue.pop()
    for slot in range(slots):
        # Blocks are dealt to SMs that are free; the others are those of the channels.
        if (slot + channels) % sm_count >= channels and following < tiles:
            tile_of[slot] = following
            following += 1
            queue.append((0.0, slot))
    end = 0.0
    while len(queue) > 0:
        now, slot = heapq.heappop(queue)
        if slot < 0:
            if beside[_PIECES] == 0.0 and left == 0:
                break
            if pieces > 0 and pieces == beside[_PIECES]:
                # Its SMs take blocks now.
                for waiting in range(slots):
                    if (waiting + channels) % sm_count < channels and following < tiles:
                        tile_of[waiting] = following
                        following += 1
                        heapq.heappush(queue, (now, waiting))
                continue
            pieces += 1
            piece_end = now + beside[_PIECE_CYCLES]
            if beside[_PIECE_BYTES] > 0.0:
                dram_free = max(now, dram_free) + beside[_PIECE_BYTES] / dram_rate
                # SMs are served in turn: the channels' have their part of the rate however many loads of others wait.
                part_free = max(now, part_free) + beside[_PIECE_BYTES] / (dram_rate * channels / sm_count)
                piece_end = max(piece_end, min(dram_free, part_free))
            heapq.heappush(queue, (piece_end, -1))
            continue
        sm = (slot + channels) % sm_count
        split = tile_of[slot] % splits
        place = tile_of[slot] // splits
        product = np.searchsorted(first_row, place // grid_columns, side="right") - 1
        grid_rows = first_row[product + 1] - first_row[product]
        place -= first_row[product] * grid_columns
        band = place // (RASTER_ROWS * grid_columns)
        band_rows = min(RASTER_ROWS, grid_rows - band * RASTER_ROWS)
        inside = place - band * RASTER_ROWS * grid_columns
        row = band * RASTER_ROWS + inside % band_rows
        column = inside // band_rows
        real_rows = max(0, min(tile_rows, group_rows[product] - row * tile_rows))
        real_columns = min(tile_columns, columns - column * tile_columns)
        row += first_row[product]
        of_b = product * grid_columns + column
        at = group_of[slot]
        deep = max(0, min(group * tile_depth, part - at * group * tile_depth))
        count = max(1, (deep + tile_depth - 1) // tile_depth)
        one = 1.0 / count

        # What comes: over the SM's port all of it, from L2 a share where neighbours take it together, from DRAM what L2
        # has not.
        bytes_a = real_rows * deep * bytes_in_a
        bytes_b = real_columns * deep * bytes_in_b
        piece = split * groups + at
        missing = 0.0
        if seen_a[row, piece] == _NEVER:
            missing += bytes_a * cold_a
        elif fetched - seen_a[row, piece] > l2_bytes:
            missing += bytes_a
        missing_a = missing
        if seen_b[of_b, piece] == _NEVER:
            missing += bytes_b * cold_b
        elif fetched - seen_b[of_b, piece] > l2_bytes:
            missing += bytes_b
        fetched += missing
        seen_a[row, piece] = fetched
        seen_b[of_b, piece] = fetched
        loaded = min(bytes_a * own_a + bytes_b * own_b, (bytes_a + bytes_b) * shared_loads)
        outside = 0.0
        if outside_loads > 0.0:
            outside = -real_rows % box_rows * deep * bytes_in_a + -real_columns % tile_columns * deep * bytes_in_b
            loaded += outside * outside_loads
        port_free[sm] = max(now, port_free[sm]) + (bytes_a + bytes_b + outside * outside_fill) / fill_rate
        l2_free = max(now, l2_free) + loaded / l2_rate
        l2_moved += loaded
        latency = l2_latency
        come = max(port_free[sm], l2_free) + latency
        if missing > 0.0:
            latency = dram_latency
            dram_free = max(now, dram_free) + missing / dram_rate
            dram_moved += missing
            come = max(come, dram_free + latency)
            came_a[row, piece] = come if missing_a > 0.0 else came_a[row, piece]
            came_b[of_b, piece] = come if missing > missing_a else came_b[of_b, piece]
        work = 2.0 * tile_rows * tile_columns * tile_depth * count / flops_per_cycle
        # A step's loads are asked for when the step ``stages`` before it leaves its buffer; of a block's first steps
        # they are all at once.
        waiting = count - 1 if at > 0 else max(0, count - stages)
        come = max(come, now + latency + waiting * (latency + work * one + step_cycles) / stages)
        if own_a < 1.0:
            come = max(come, came_a[row, piece])
        if own_b < 1.0:
            come = max(come, came_b[of_b, piece])

        # The group's first step waits for its own operands, the last for all; a block's steps follow one another, an
        # SM's share its cores.
        arithmetic += work
        first = come - max(0.0, come - now - latency) * (1.0 - one)
        ready = max(own_free[slot], first)
        begin = max(tensor_free[sm], ready)
        done = max(max(begin + work, ready + work + step_cycles * count), come + work * one)
        tensor_free[sm] = begin + work
        own_free[slot] = done
        loaded_groups = before[slot] + at
        begins[slot, loaded_groups % ring] = begin
        ends[slot, loaded_groups % ring] = done
        at += 1
        # The next group's first step takes the buffer of the step ``stages`` before it.
        freed = (loaded_groups + 1) * group - stages
        later = now
        if freed >= 0:
            which = freed // group % ring
            later = begins[slot, which] + (ends[slot, which] - begins[slot, which]) * (freed % group + 1) / group
        if at < groups:
            group_of[slot] = at
            heapq.heappush(queue, (max(now, later), slot))
            continue
        stored = real_rows * real_columns * (bytes_out if splits == 1 else 4.0)
        dram_free += stored / dram_rate if splits == 1 else 0.0
        dram_moved += stored if splits == 1 else 0.0
        summed = done
        # One epilogue after the other.
        done = max(done, stored_at[slot]) + epilogue_cycles + real_rows * real_columns / epilogue_rate
        end = max(end, done)
        left -= 1
        if following < tiles:
            tile_of[slot] = following
            following += 1
            group_of[slot] = 0
            if overlap == STARTS_ANEW:
                own_free[slot] = 0.0
                heapq.heappush(queue, (done + start_cycles, slot))
                continue
            before[slot] += groups
            # Two accumulators: the products of the next tile but one wait for this one's.
            own_free[slot] = start_cycles + (max(summed, stored_at[slot]) if overlap == MULTIPLIES_AHEAD else done)
            stored_at[slot] = done
            heapq.heappush(queue, (max(now, later), slot))
    # Results that L2 does not hold have left it by then.
    if overlap != STARTS_ANEW and splits == 1 and group_rows.sum() * columns * bytes_out > l2_bytes:
        end = max(end, dram_free)
    return end, l2_moved, dram_moved, arithmetic / sm_count, pieces, piece_end


#: With a list's numbers as its arguments.
_compiled: Callable[..., tuple[float, float, float, float, int, float]] = _run
