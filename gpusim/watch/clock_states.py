"""The states of an SM clock over a history: which points ran at the same clock, as far as it decides a time.

Mental model: a clock that is read beside each value scatters a little around each of its states (boost, a power limit,
locked). Sorted, the readings have a gap between two states, and none within one.
"""

from __future__ import annotations

from collections.abc import Sequence

#: A gap of so much of the clock parts two states: readings of one state lie closer (the H100's steps are 15 MHz of
#: 1,980), and the drift of a warm GPU is narrower than it (gpusim.measure.rounds.DRIFT).
GAP = 0.02


def clock_states(clocks_hz: Sequence[float]) -> list[str]:
    """The state of each reading, named by the state's lowest clock in MHz; "" where the clock is not known (0)."""
    names: dict[float, str] = {0.0: ""}
    state, last = "", 0.0
    for clock in sorted({each for each in clocks_hz if each > 0}):
        if not last or clock > last * (1 + GAP):
            state = f"{clock / 1e6:.0f} MHz"
        names[clock] = state
        last = clock
    return [names.get(max(clock, 0.0), "") for clock in clocks_hz]
