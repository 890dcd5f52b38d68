"""The hardware's components, one a file: a state of typed arrays and small jitted functions."""

from pathlib import Path

from gpusim.jit_cache import drop_stale

_FOLDER = Path(__file__).parent
drop_stale(_FOLDER, [*_FOLDER.glob("*.py"), *_FOLDER.parent.glob("trace/*.py")])
