"""The table of rules for remedies: which stall reason or limiter each looks at.

Mental model: a rule only proposes a change (:mod:`gpusim.why.proposal`), at a line where it can; whether the change
saves anything, and how much, a simulation of the changed launch says (:mod:`gpusim.why.advice`).
"""

from __future__ import annotations

from gpusim.why.core_rules import barriers, code_size, dependency_chains, double_precision, issue_roof
from gpusim.why.evidence import Evidence
from gpusim.why.launch_rules import few_blocks, launch_overhead, occupancy, tail_wave
from gpusim.why.load_rules import elements_a_thread, loads_in_flight, shared_latency
from gpusim.why.memory_rules import (
    atomics,
    bank_conflicts,
    coalescing,
    constants,
    contended_atomics,
    dram_roof,
    local_memory,
)
from gpusim.why.proposal import Proposal, Rule
from gpusim.why.waiting_rules import fences, waiting

#: In no order: proposals are tried by their weight.
RULES = (
    Rule("loads in flight", "long_scoreboard in a loop", loads_in_flight),
    Rule("elements a thread", "long_scoreboard outside loops", elements_a_thread),
    Rule("shared loads in flight", "short_scoreboard in a loop", shared_latency),
    Rule("coalescing", "sectors a request above the least", coalescing),
    Rule("bank conflicts", "wavefronts of shared memory above the least", bank_conflicts),
    Rule("atomics", "lanes of an atomic that meet", atomics),
    Rule("contended atomics", "atomics of many warps on few words of L2", contended_atomics),
    Rule("constants", "math_pipe_throttle at indexed loads of constants", constants),
    Rule("local memory", "sectors of local memory", local_memory),
    Rule("barriers", "barrier", barriers),
    Rule("fences", "membar", fences),
    Rule("waiting", "rounds of polling loops", waiting),
    Rule("occupancy", "occupancy limited by registers or shared memory", occupancy),
    Rule("dependency chains", "wait behind arithmetic", dependency_chains),
    Rule("double precision", "the FP64 pipe", double_precision),
    Rule("code size", "no_instruction", code_size),
    Rule("tail wave", "a last wave that is not full", tail_wave),
    Rule("few blocks", "fewer blocks than SMs", few_blocks),
    Rule("launch overhead", "the launch's start and end", launch_overhead),
    Rule("DRAM roof", "bytes of DRAM at the peak", dram_roof),
    Rule("issue roof", "issue slots at the peak", issue_roof),
)


def proposals(found: Evidence) -> list[Proposal]:
    """What all rules propose for a kernel, the weightiest first."""
    return sorted((one for rule in RULES for one in rule.find(found)), key=lambda one: -one.weight)
