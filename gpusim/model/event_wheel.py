"""What the L2 still has to do, by the tick at which it comes up, equal ticks in order of birth.

Mental model: a wheel with one place for each of the next :data:`WHEEL_TICKS` ticks, which turns with the time: a place
holds the list of the nodes whose event comes up at its tick, the youngest first, linked through the nodes themselves.
Marks say which places hold any, a mark of 32 marks which of those are set. So an event costs the same however many
wait, and what comes up next stands side by side: it can be asked for early. What lies further ahead than the wheel
reaches waits in a heap (:mod:`gpusim.model.event_heap`). Such an event was born before any in the wheel that comes up
at the same tick, since time only goes on, and has its turn first. Nodes of a tick are turned round when it comes; those
that are born at that tick follow.

``wheel`` int32[WHEEL_TICKS]: a node, where its place is marked; ``marks`` uint32[MARK_WORDS], 32 places a word, behind
them 32 words a word. Whether a place holds anything is asked of the marks, which the host's near cache holds, and not
of the wheel, which it does not.
"""

from __future__ import annotations

import numpy as np

from gpusim.model.bit_sets import lowest
from gpusim.model.compiled import inlined

_TICK_BITS, _WORD_BITS = 18, 5
#: How far ahead the wheel reaches: more than an access takes from slice to slice, queues aside.
WHEEL_TICKS = 1 << _TICK_BITS
_WORD = (1 << _WORD_BITS) - 1
_WORDS = WHEEL_TICKS >> _WORD_BITS
MARK_WORDS = _WORDS + (_WORDS >> _WORD_BITS)


@inlined
def place_at(tick: int) -> int:
    """The place of a tick."""
    return tick & (WHEEL_TICKS - 1)


@inlined
def is_marked(marks: np.ndarray, place: int) -> bool:
    """Whether a place holds something."""
    return np.int64(marks[place >> _WORD_BITS]) >> (place & _WORD) & 1 != 0


@inlined
def mark(marks: np.ndarray, place: int) -> None:
    """Note that a place holds something."""
    word = place >> _WORD_BITS
    marks[word] = np.int64(marks[word]) | 1 << (place & _WORD)
    words = _WORDS + (word >> _WORD_BITS)
    marks[words] = np.int64(marks[words]) | 1 << (word & _WORD)


@inlined
def unmark(marks: np.ndarray, place: int) -> None:
    """Note that it holds nothing."""
    word = place >> _WORD_BITS
    left = np.int64(marks[word]) & ~(1 << (place & _WORD))
    marks[word] = left
    if left == 0:
        words = _WORDS + (word >> _WORD_BITS)
        marks[words] = np.int64(marks[words]) & ~(1 << (word & _WORD))


@inlined
def next_marked(marks: np.ndarray, tick: int) -> int:
    """The first tick from ``tick`` on whose place holds something; some place does."""
    place = place_at(tick)
    word = place >> _WORD_BITS
    ahead = np.int64(marks[word]) >> (place & _WORD)
    if ahead:
        return tick + lowest(ahead)
    word += 1
    while True:
        words = np.int64(marks[_WORDS + ((word & (_WORDS - 1)) >> _WORD_BITS)]) >> (word & _WORD)
        if words:
            word += lowest(words)
            return tick - place + (word << _WORD_BITS) + lowest(np.int64(marks[word & (_WORDS - 1)]))
        word = (word | _WORD) + 1


@inlined
def marks_of(marks: np.ndarray, tick: int) -> np.int64:
    """The marks of the 32 ticks, beginning with a multiple of 32, in which ``tick`` lies."""
    return np.int64(marks[place_at(tick) >> _WORD_BITS])
