"""The parts that own time: SM groups, dispatcher, L2, DRAM, and the conductor that runs them in windows."""

from pathlib import Path

from gpusim.jit_cache import drop_stale

_FOLDER = Path(__file__).parent
drop_stale(_FOLDER, [path for part in ("engine", "model", "trace") for path in _FOLDER.parent.glob(f"{part}/*.py")])
