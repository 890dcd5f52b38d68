"""The plan that ``gpusim watch init`` writes: every key, with what it means."""

from __future__ import annotations

_TEMPLATE = """\
# A plan of gpusim watch: what is run for every commit. Paths are relative to this file.

[plan]
name = "{name}"             # its history is filed under this name
repository = "."            # the git repository whose commits are the history
gpus = ["h200"]             # names of gpusim gpus list, or description files
cases = [                   # KERNEL:axis=value,... or FILE.py:FUNCTION:axis=value,... within the repository
    "saxpy:n=100000",
]
suites = []                 # pinned suites of gpusim suite, or files of gpusim suite make
mode = "simulated"          # or "measured", on the GPU of the machine that runs the plan
small = false               # begin from each kernel's small shape
python_path = []            # folders of the checked-out commit from which the cases import
budget_s = 3600             # no cell is begun after so many seconds
cell_timeout_s = 600        # a cell that takes longer has no value
least_percent = 0.1         # no smaller change opens an alert
# expect_file = "expect.toml"  # slowdowns that were agreed on; this name is taken where it lies beside the plan
# owners_file = ".github/CODEOWNERS"

# Toolchains, by the Python environment that has them; without any, the one that runs the plan.
# [toolchains.cuda13]
# python = "/opt/cuda13/bin/python"
# environment = {{ TRITON_PTXAS_PATH = "/opt/cuda13/bin/ptxas" }}

# Whose a kernel is; the last rule that fits says it.
# [[owners]]
# kernel = "softmax*"       # of FILE.py:softmax as well
# owners = ["@attention-team"]
# [[owners]]
# cause = "toolchain"         # of changes of the compiler, which are no kernel's
# owners = ["@build-team"]
"""


def template(name: str) -> str:
    """The text of a plan called ``name``."""
    return _TEMPLATE.format(name=name)
