"""The ways through a kernel's code: what belongs to a loop, and how one instruction is come to from another.

Mental model: a graph whose nodes are instructions; each leads on to the next one, or where its branch goes.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np

from gpusim.emulator.poll_instructions import TRUE, Instructions
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at


class Ways(Instructions):
    """Instructions, and the ways between them."""

    def leads_to(self, head: int, back: int) -> bool:
        """Whether whoever comes to ``head`` may come to ``back`` behind it by what lies between: it is not only behind
        them, as code is to which lanes that are not together go and come back from."""
        if self._ended[back] == self._ended[head]:  # nothing that leads away for certain
            return True
        todo, seen = [head], {head}
        while todo:
            i = todo.pop()
            if i == back:
                return True
            if self.op(i) == ops.EXIT and not self.is_conditional(i):
                continue
            new = {s for s in self.successors(i) if head <= s <= back} - seen
            todo += new
            seen |= new
        return False

    @functools.cached_property
    def _ended(self) -> list[int]:
        """How many instructions before each lead away for certain."""
        row = self._matrix
        always = np.isin(row[:, [at.GUARD, at.P0]], TRUE).all(axis=1) & np.isin(row[:, at.OP], (ops.BRANCH, ops.EXIT))
        return np.concatenate(([0], np.cumsum(always))).tolist()

    def end(self, head: int, back: int) -> int:
        """The last instruction of a loop whose branch to its ``head`` is ``back``: behind it may stand another that
        leads into its midst, as sm_75 has it for lanes that join the others at the end of a round."""
        while back + 1 < len(self._ops) and self._leads(back + 1, head, back):
            back += 1
        return back

    def _leads(self, i: int, head: int, back: int) -> bool:
        return self.op(i) == ops.BRANCH and not self.is_conditional(i) and head <= self.target(i) <= back

    def core(self, inside: range, heads: Iterable[int]) -> set[int]:
        """The instructions of a loop from which it may go on to another round; others lie in its midst but lead out."""
        before: dict[int, list[int]] = {}
        for i in inside:
            if self.op(i) != ops.EXIT or self.is_conditional(i):
                for following in self.successors(i):
                    before.setdefault(following, []).append(i)
        core, todo = set(), list(heads)
        while todo:
            for i in before.get(todo.pop(), ()):
                if i not in core:
                    core.add(i)
                    todo.append(i)
        return core

    @functools.cached_property
    def _before(self) -> list[list[int]]:
        """The instructions from which each is come to, as far as the code says."""
        before: list[list[int]] = [[] for _ in self._ops]
        for i, op in enumerate(self._ops):
            ends = op in (ops.EXIT, ops.BRANCH_INDEXED) and not self.is_conditional(i)
            for following in () if ends else self.successors(i):
                if 0 <= following < len(before):
                    before[following].append(i)
        return before

    def path(
        self, decision: int, load: int, inside: range, stays_taken: bool, until: int | None = None
    ) -> tuple[tuple[int, int], ...] | None:
        """The shortest way from a decision that goes on polling through the load to the next decision, as runs."""
        start = self.target(decision) if stays_taken else decision + 1
        until = decision if until is None else until
        there, back = self._shortest(start, load, inside, load), self._shortest(load, until, inside, load)
        if there is None or back is None:
            return None
        steps = [*there, *back[1:]]
        runs: list[tuple[int, int]] = []
        for step in steps:
            if runs and sum(runs[-1]) == step:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((step, 1))
        return tuple(runs) if len(runs) <= at.POLL_RUNS else None

    def _shortest(self, start: int, goal: int, inside: range, load: int) -> list[int] | None:
        before: dict[int, int | None] = {start: None}
        queue = deque([start])
        while queue:
            i = queue.popleft()
            if i == goal:
                return list(_back(before, i))[::-1]
            stored = self._matrix[i, at.RECORDS] and self.op(i) != ops.GIVE_WAY
            if i not in inside or (stored and i != load):
                continue
            for following in self.successors(i):
                if following in inside and following not in before:
                    before[following] = i
                    queue.append(following)
        return None


def _back(before: dict[int, int | None], i: int | None) -> Iterator[int]:
    while i is not None:
        yield i
        i = before[i]
