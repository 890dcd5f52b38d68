"""Let the tests of this folder import the oracles and harnesses that lie in ``tests/``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
