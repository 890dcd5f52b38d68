"""Runs unmodified CUDA Python programs on a machine with no GPU: a driver library that emulates.

Importing this package raises UsageError in a process whose environment would keep Numba from using a driver;
Numba reads it once, when it is first imported.
"""

import os

from gpusim.driver.refused import refuse_environment

refuse_environment(dict(os.environ))
