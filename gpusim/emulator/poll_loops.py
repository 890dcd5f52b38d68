"""Finds the loops in which a warp polls memory: what it reads again and again, and where it decides to go on.

Mental model: a loop polls if memory can end it: a branch that leaves it depends, within one round, on a load or atomic
whose address (and operands) are the same in every round. Such a loop ends when another warp writes, however often it
goes round; so a trace says *what was written* and the simulated machine decides how often. It may also give up, by a
count or a clock. Compilers often test once before the loop: that *early* decision leads to the same place as the loop's
own, and belongs to it. Where one load decides at one branch, a round is known from the code. Other loops on which a
load past the L1 or an atomic decides (several flags, a state with several values, a lock whose holder works inside the
loop) may poll, or not: there a round is what was executed (:mod:`gpusim.emulator.poll_rounds`).

Loops are looked for in the code matrix, so that all forms of an instruction are one thing here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpusim.emulator.poll_code import Code
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.trace.record import Space

#: Instructions of the longest loop that is looked at, of the longest whose rounds are known only as they are executed,
#: and before a loop to look for an early decision.
LONGEST, LONGEST_ROUND, _EARLIER = 192, 512, 48
_EXACT = at.POLL_EXACT


@dataclass(frozen=True)
class Decision:
    """The branch ``at`` that goes on polling or not, and the ``loads`` and atomics that it depends on. ``stays_taken``:
    it is taken to go on polling. ``of_value_alone``: what was read decides, compared with nothing that differs from
    waiter to waiter (a flag that is set, not a ticket whose turn comes). ``path``: (first, count) of the instructions
    from it to the next decision, through the load. ``kind``: POLL_EXACT, POLL_ROUND or POLL_GIVES_UP. ``back``: whoever
    stays has gone round. ``grows``: a NANOSLEEP of the loop sleeps longer from round to round. ``again``: its rounds
    leave nothing behind but what memory says."""

    at: int
    loads: tuple[int, ...]
    loop: int
    stays_taken: bool
    of_value_alone: bool
    path: tuple[tuple[int, int], ...] = ()
    kind: int = _EXACT
    head: int = 0
    back: bool = True
    leaves: bool = True
    grows: bool = False
    again: bool = False


def find_decisions(matrix: np.ndarray, strong: np.ndarray) -> list[Decision]:
    """The decisions of all polling loops in a code matrix int32[n, COLUMNS] whose offsets are counted in whole rows;
    ``strong`` bool[n]: accesses that are ordered with those of other warps, of the block at least."""
    code = Code(matrix)
    loops: dict[int, int] = {}
    innermost: dict[int, int] = {}
    ends: dict[int, int] = {}
    for back in range(len(matrix)):
        row = matrix[back]
        if row[at.OP] != ops.BRANCH or not 0 <= row[at.TARGET] <= back < row[at.TARGET] + LONGEST_ROUND:
            continue
        head = int(row[at.TARGET])
        if code.leads_to(head, back):
            innermost.setdefault(head, code.end(head, back))
            loops[head] = code.end(head, back)
            ends[back] = head
    found: dict[int, Decision] = {}
    taken: set[int] = set()  # loads and atomics of which it is known where they decide

    def keep(decisions: list[Decision]) -> bool:
        for decision in decisions:
            found.setdefault(decision.at, decision)
            if decision.kind != at.POLL_ROUND:
                taken.update(decision.loads)
        return bool(decisions)

    rest: list[range] = []
    for number, (head, back) in enumerate(loops.items()):
        inner = innermost[head]
        single = list(ends.values()).count(head) == 1
        # A loop that begins with a wait has its head in common with it; one that only looks at memory waits as a whole.
        nested = not single and not _is_quiet(code, range(inner + 1, back + 1))
        known = (single or nested) and inner < head + LONGEST and keep(_exact_decisions(code, head, inner, number))
        if nested or not known:
            rest.append(range(head, back + 1))
    strong = _seen_by_block(code, matrix, rest, strong)
    for number, (inside, heads) in enumerate(_regions(code, rest, strong).items(), len(loops)):
        keep(_locks(code, inside, number, taken))
        backs = {back: head for back, head in ends.items() if back in inside and head in heads}
        keep(_round_decisions(code, inside, backs, number, strong, taken))
    return [found[i] for i in sorted(found)]


def _seen_by_block(code: Code, matrix: np.ndarray, loops: list[range], strong: np.ndarray) -> np.ndarray:
    """``strong``, and loads of shared memory that read the same address again and again in loops that only look at
    memory: nothing else in the code says of them that other warps of the block write there."""
    found = strong.copy()
    for loop in loops:
        if _is_quiet(code, loop):
            shared = [i for i in loop if code.op(i) == ops.LOAD and matrix[i, at.SPACE] == Space.SHARED]
            found[[i for i in shared if code.reads_same_place(i, loop.start, loop.stop - 1)]] = True
    return found


def _regions(code: Code, loops: list[range], strong: np.ndarray) -> dict[range, set[int]]:
    """Loops, with their first instructions; those that only look at memory, end by what they see there, and lie in each
    other, or overlap, are one: they wait together."""
    regions: dict[range, set[int]] = {}
    last: range | None = None
    for loop in sorted(loops, key=lambda loop: (loop.start, -loop.stop)):
        if not _is_quiet(code, loop) or not _polled(code, loop, strong):
            regions.setdefault(loop, set()).add(loop.start)
            continue
        if last is not None and loop.start < last.stop and max(loop.stop, last.stop) - last.start <= LONGEST_ROUND:
            heads = regions.pop(last)
            last = range(last.start, max(loop.stop, last.stop))
            regions[last] = heads
        else:
            last = loop
        regions.setdefault(last, set()).add(loop.start)
    return regions


def _is_quiet(code: Code, inside: range) -> bool:
    """Whether the code does nothing but look at memory."""
    return all(code.is_harmless(i) or code.op(i) in (ops.LOAD, ops.ATOMIC) for i in inside)


def _polled(code: Code, inside: range, strong: np.ndarray) -> set[int]:
    """Loads past the L1 and atomics on which it depends whether the loop goes on."""
    found: set[int] = set()
    if not code.may_see_others(inside, strong):
        return found
    for branch in _leaving(code, inside, code.core(inside, [inside.start])):
        found |= code.depends(branch, inside.start, inside.stop - 1)[0]
    return {i for i in found if strong[i] or code.op(i) == ops.ATOMIC}


def _locks(code: Code, inside: range, number: int, taken: set[int]) -> list[Decision]:
    """Where atomics of the loop have been looked at that may take a lock."""
    atomics = [i for i in inside if code.op(i) == ops.ATOMIC and i not in taken]
    if not atomics:
        return []
    core = code.core(inside, [inside.start])
    if not _leaving(code, inside, core) and all(code.op(i) != ops.EXIT for i in core):
        return []
    ends = {i: code.lock_end(i, inside) for i in atomics}
    return [
        Decision(end, (i,), number, False, False, kind=at.POLL_SWAPPED, head=i)
        for i, end in ends.items()
        if end is not None
    ]


def _leaving(code: Code, inside: range, core: set[int]) -> list[int]:
    """The branches, and exits, at which it is decided whether the loop, whose ``core`` that is, goes on."""
    return [
        i for i in inside
        if i in core and (
            (code.op(i) == ops.BRANCH and any(s not in core for s in code.successors(i))) or code.may_exit(i)
        )
    ]  # fmt: skip


def _way_out(code: Code, decision: int, core: set[int]) -> int | None:
    """The instruction to which a ``decision`` leads that leaves the loop; None where the warp ends."""
    if code.op(decision) == ops.EXIT:
        return None
    return decision + 1 if code.target(decision) in core else code.target(decision)


def _exact_decisions(code: Code, head: int, back: int, number: int) -> list[Decision]:
    """The decisions of the loop ``head`` to ``back`` if one load or atomic decides at one branch, and all else that
    ends it is that it gives up; none otherwise."""
    inside = range(head, back + 1)
    reads = [i for i in inside if code.op(i) in (ops.LOAD, ops.ATOMIC)]
    if not reads or any(not code.is_harmless(i) for i in inside if i not in reads):
        return []
    awaiting = []
    giving_up = []
    core = code.core(inside, [head])
    for branch in _leaving(code, inside, core):
        awaited = code.awaited(branch, head, back)
        if awaited is not None:
            awaiting.append((branch, *awaited))
        elif code.depends(branch, head, back)[0]:
            return []
        else:
            giving_up.append(branch)
    if len(awaiting) != 1:
        return []
    decision, load, alone = awaiting[0]
    out = _way_out(code, decision, core)
    stays_taken = out == decision + 1
    path = code.path(decision, load, inside, stays_taken)
    if path is None:
        return []
    grows = code.sleep_changes(inside)
    straight = not giving_up and sum(code.op(i) == ops.BRANCH for i in inside) <= 1 + (decision != back)
    again = straight and code.op(load) == ops.LOAD and code.carries_nothing(inside)
    found = [Decision(decision, (load,), number, stays_taken, alone, path, head=head, grows=grows, again=again)]
    found += [
        Decision(i, (load,), number, _way_out(code, i, core) == i + 1, alone, kind=at.POLL_GIVES_UP, head=head)
        for i in giving_up
    ]
    found += _distant_decisions(code, inside, out, load, number, alone)
    early = _early_decisions(code, inside, decision, out, load, number, alone)
    return found + [replace(one, grows=grows, again=again) for one in early]


def _distant_decisions(
    code: Code, inside: range, out: int | None, load: int, number: int, alone: bool
) -> list[Decision]:
    """Branches far from a loop that lead to its head, or else go on where the loop leads, to ``out``, each on a load as
    its ``load`` is: compilers put the loop of a wait behind the kernel's end, and what asks first in its place."""
    if out is None:
        return []
    for _ in range(4):
        if code.op(out) == ops.BRANCH and not code.is_conditional(out):
            out = code.target(out)
    branch = out - 1
    if branch < 0 or branch in inside or code.op(branch) != ops.BRANCH or not code.is_conditional(branch):
        return []
    before = code.awaited(branch, max(0, branch - _EARLIER), branch, straight=True)
    if code.target(branch) != inside.start or before is None:
        return []
    first = before[0]
    if not code.is_alike(first, load) or not code.is_straight(first, branch):
        return []
    return [Decision(branch, (first,), number, True, alone, kind=at.POLL_SWAPPED, head=first, back=False)]


def _round_decisions(
    code: Code, inside: range, heads: dict[int, int], number: int, strong: np.ndarray, taken: set[int]
) -> list[Decision]:
    """The decisions of the loop ``inside`` if a load past the L1 or an atomic may end it; ``heads``: where the branches
    back in it lead."""
    if not code.may_see_others(inside, strong):
        return []
    core = code.core(inside, set(heads.values()))
    leaving = _leaving(code, inside, core)
    loads: set[int] = set()
    alone = True
    for branch in leaving:
        found, by_itself = code.depends(branch, inside.start, inside.stop - 1)
        polls = {i for i in found - taken if strong[i] or code.op(i) == ops.ATOMIC}
        polls = {i for i in polls if not code.swaps_what_changes(i, inside)}
        loads |= polls
        alone &= by_itself or not polls
    if not loads:
        return []
    awaited = tuple(sorted(loads))
    decisions = [
        Decision(
            i, awaited, number, i in heads or _way_out(code, i, core) == i + 1, alone, kind=at.POLL_ROUND,
            head=heads.get(i, inside.start), back=i in heads, leaves=i in leaving,
        )
        for i in sorted({*leaving, *heads})
    ]  # fmt: skip
    for branch in leaving:
        out = _way_out(code, branch, core)
        for load in sorted(loads & code.depends(branch, inside.start, inside.stop - 1)[0]):
            decisions += _unrolled_decisions(code, inside, out, load, number, alone)
            decisions += _early_decisions(code, inside, branch, out, load, number, alone)
    return decisions


def _unrolled_decisions(
    code: Code, inside: range, out: int | None, load: int, number: int, alone: bool
) -> list[Decision]:
    """Several tests before a loop, one behind the other, that lead where the loop leads, to ``out``, each on a load as
    its ``load`` is: the first rounds of the polling, which libcu++'s waits make without giving way."""
    branches: list[int] = []
    at_hand = inside.start - 1
    while at_hand >= 0 and (code.is_harmless(at_hand) or code.op(at_hand) in (ops.LOAD, ops.ATOMIC)):
        if code.op(at_hand) == ops.BRANCH:
            if not code.is_conditional(at_hand) or code.target(at_hand) != out:
                break
            branches.insert(0, at_hand)
        at_hand -= 1
    if len(branches) < 2:
        return []
    found = []
    length = branches[1] - branches[0]
    for before, branch in zip([max(at_hand, branches[0] - length), *branches], branches, strict=False):
        awaited = code.awaited(branch, before + 1, branch, straight=True)
        if awaited is None or not code.is_alike(awaited[0], load):
            return []
        found.append(
            Decision(branch, (awaited[0],), number, False, alone, kind=at.POLL_ROUND, head=before + 1, back=True)
        )
    return found


def _early_decisions(
    code: Code, inside: range, decision: int, out: int | None, load: int, number: int, alone: bool
) -> list[Decision]:
    """Branches before a loop that lead where its ``decision`` leads, to ``out`` (None: they end the warp), and depend
    on a load as its ``load`` is: of the same place, so that the loop goes on with what they began, or of one that the
    compiler names otherwise."""
    found = []
    for early in range(inside.start - 1, max(-1, inside.start - _EARLIER), -1):
        if not code.leads_where(early, out):
            continue
        before = code.awaited(early, max(0, early - _EARLIER), early, straight=True)
        if before is None:
            continue
        first, same = before[0], code.same_place(before[0], load)
        way = code.path(early, load, range(early + 1, inside.stop), False, decision) if same else None
        if way is not None:
            found.append(Decision(early, (first,), number, False, alone, way, head=inside.start))
        elif code.is_alike(first, load) and code.only_looks(first) and code.is_straight(first, early):
            found.append(Decision(early, (first,), number, False, alone, kind=at.POLL_SWAPPED, head=first, back=False))
    return found


def poll_columns(matrix: np.ndarray, strong: np.ndarray) -> np.ndarray:
    """Fill the column ORDERED of a code matrix whose offsets are counted in whole rows with what polling asks for;
    ``strong`` bool[n] as there. Returns the table of decisions, int32[d, POLL columns]."""
    decisions = find_decisions(matrix, strong)
    table = np.zeros((len(decisions), at.POLL_TABLE.width), np.int32)
    if not decisions:
        return table
    op = matrix[:, at.OP]
    space = matrix[:, at.SPACE]
    loads = np.array(sorted({load for d in decisions for load in d.loads}))
    shared = np.isin(space[loads], (Space.SHARED, Space.GENERIC)).any()
    beyond = np.isin(space[loads], (Space.GLOBAL, Space.GENERIC)).any()
    here = (
        np.isin(space, (Space.SHARED, Space.CLUSTER)) & shared
        | (space == Space.GLOBAL) & beyond
        | (space == Space.GENERIC)
    )
    matrix[(op == ops.STORE) & here & ~strong, at.ORDERED] |= at.TRACK_ONE_LANE
    matrix[(op == ops.STORE) & here & strong, at.ORDERED] |= at.TRACK_WRITE
    matrix[np.isin(op, (ops.ATOMIC, ops.ASYNC_STORE, ops.BULK, ops.NEXT_WORK)) & here, at.ORDERED] |= at.TRACK_WRITE
    later = (op == ops.BULK) | (op == ops.ATOMIC) & (matrix[:, at.F3] & ops.WHEN_DONE != 0)
    matrix[later, at.ORDERED] |= at.WRITES_LATER
    matrix[loads, at.ORDERED] |= at.TRACK_POLL | at.ORDER_SHOWS
    known = {load for d in decisions if d.kind in (at.POLL_EXACT, at.POLL_GIVES_UP) for load in d.loads}
    matrix[[load for load in loads if load not in known], at.ORDERED] |= at.TRACK_PERHAPS
    values = [load for load in loads if all(d.of_value_alone for d in decisions if load in d.loads)]
    matrix[[load for load in values if op[load] == ops.LOAD], at.ORDERED] |= at.TRACK_VALUE
    for number, decision in enumerate(decisions):
        shows = at.ORDER_SHOWS if decision.kind in (at.POLL_EXACT, at.POLL_GIVES_UP) else 0
        matrix[decision.at, at.ORDERED] |= at.DECIDES | shows
        row = table[number]
        row[at.POLL_AT] = decision.at
        row[at.POLL_LOOP], row[at.POLL_STAYS], row[at.POLL_COUNT] = (
            decision.loop,
            decision.stays_taken,
            len(decision.path),
        )
        row[at.POLL_LEAVES], row[at.POLL_GROWS] = decision.leaves, decision.grows
        row[at.POLL_AGAIN] = decision.again and decision.kind == _EXACT
        row[at.POLL_KIND], row[at.POLL_HEAD], row[at.POLL_BACK] = decision.kind, decision.head, decision.back
        if decision.path:
            row[at.POLL_PATH : at.POLL_PATH + 2 * len(decision.path)] = np.ravel(decision.path)
    return table
