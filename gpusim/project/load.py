"""What one step of a replica works on: groups of sequences with new tokens and the keys that they meet.

Mental model: a prefill is one group with as many new tokens as keys; a decode one with one new token each; a mixed step
of continuous batching has both. Every token-wise operator sees the sum of new tokens, attention sees each group.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.project.plan import Plan


@dataclass(frozen=True)
class Group:
    """``sequences`` with ``queries`` new tokens each, that meet ``keys`` (the new ones included)."""

    sequences: int
    queries: int
    keys: int


@dataclass(frozen=True)
class Load:
    """``groups`` of one step; ``ends``: sequences whose next token is drawn in it."""

    groups: tuple[Group, ...]
    ends: int

    @property
    def tokens(self) -> int:
        """New tokens of all groups."""
        return sum(group.sequences * group.queries for group in self.groups)


def steps_of(plan: Plan) -> tuple[Load, ...]:
    """The steps of one micro-batch, in order: one, or as many as a chunked prefill takes."""
    sequences = plan.replica_batch // plan.micro_batches
    if plan.groups:
        return (Load(tuple(Group(*group) for group in plan.groups), sum(group[0] for group in plan.groups)),)
    if plan.phase == "decode":
        return (Load((Group(sequences, 1, plan.sequence),), sequences),)
    if plan.phase == "mixed":
        prompt = Group(1, min(plan.chunk, plan.sequence), plan.sequence)
        return (Load((Group(sequences, 1, plan.sequence), prompt), sequences + 1),)
    if plan.phase == "train" or not plan.chunk or plan.chunk >= sequences * plan.sequence:
        return (Load((Group(sequences, plan.sequence, plan.sequence),), sequences),)
    return tuple(_chunks(sequences, plan.sequence, plan.chunk))


def halves_of(plan: Plan) -> tuple[Load, Load]:
    """A micro-batch's sequences in two, for a plan whose halves take turns."""
    sequences = plan.replica_batch // plan.micro_batches
    queries = 1 if plan.phase == "decode" else plan.sequence
    first, second = (
        Load((Group(count, queries, plan.sequence),), count) for count in (-(-sequences // 2), sequences // 2)
    )
    return first, second


def _chunks(sequences: int, length: int, chunk: int) -> list[Load]:
    """Prompts one after the other, ``chunk`` tokens a step; a step that ends a prompt begins the next."""
    loads = []
    done = 0
    total = sequences * length
    while done < total:
        left = min(chunk, total - done)
        groups, ends = [], 0
        while left:
            offset = done % length
            queries = min(left, length - offset)
            groups.append(Group(1, queries, offset + queries))
            ends += offset + queries == length
            done, left = done + queries, left - queries
        loads.append(Load(_merged(groups), ends))
    return loads


def _merged(groups: list[Group]) -> tuple[Group, ...]:
    """Equal ones as one group."""
    counts: dict[tuple[int, int], int] = {}
    for group in groups:
        key = (group.queries, group.keys)
        counts[key] = counts.get(key, 0) + group.sequences
    return tuple(Group(sequences, queries, keys) for (queries, keys), sequences in counts.items())
