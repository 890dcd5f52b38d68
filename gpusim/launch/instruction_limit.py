"""When a launch counts as one that never ends, where nobody says otherwise."""

#: Warp instructions.
DEFAULT_INSTRUCTION_LIMIT = 10_000_000_000
