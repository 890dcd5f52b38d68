"""What gpusim's own properties say of themselves: where each is, what it asks, and its options.

Mental model: the command line offers all properties and their options before any of them, and with it the simulator, is
loaded; so what it says of them stands here, and each class takes its own from here.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.explore.option import Option, existing_file, existing_path
from gpusim.sanitizer.checks import CHECKS

#: More of everything: rates that are multiplied, and latencies that are divided, by this.
FACTOR = 2.0


@dataclass(frozen=True)
class OwnProperty:
    """``place``: its class, as ``module:class``; ``asks``: its question, one line; ``options``: those it takes."""

    place: str
    asks: str
    options: tuple[Option, ...] = ()


OTHER_GPU = Option("other_gpu", "the description to compare with.", metavar="NAME")
OTHER_SET = Option("other_set", "what differs there.", metavar="KEY=VALUE", multiple=True, separator=" ")
OTHER_KERNEL = Option(
    "other_kernel",
    "the kernel to compare with, of the suite or FILE.py:FUNCTION with the same axes.",
    metavar="KERNEL",
)
OTHER_GPUSIM = Option(
    "other_gpusim", "another gpusim's top folder, or a Python that has one.", type=existing_path, metavar="PATH"
)
KEY = Option("key", "a key of the GPU file to make better, instead of all.", metavar="KEY", multiple=True)
BY = Option("by", "by what factor.", type=float, default=FACTOR, metavar="FACTOR")
CHECKED = Option(
    "checks", f"what to look for: {', '.join(CHECKS)}, separated by commas; all by default.", metavar="CHECKS"
)
ROWS = Option(
    "rows",
    "measured rows; without it those that are recorded here.",
    type=existing_file,
    metavar="FILE",
    multiple=True,
)

BOUNDS = OwnProperty(
    "gpusim.explore.properties:Bounds", "is the time between the speed of light and what the work can explain?"
)
ANALYTIC = OwnProperty(
    "gpusim.explore.properties:Analytic", "is the time within a factor of an estimate from work and latencies?"
)
GPUS = OwnProperty(
    "gpusim.explore.properties:Gpus",
    "does the launch take as long on another GPU's description?",
    (OTHER_GPU, OTHER_SET),
)
BUILDS = OwnProperty("gpusim.explore.properties:Builds", "is the other build as fast?", (OTHER_KERNEL,))
METAMORPHIC = OwnProperty(
    "gpusim.explore.metamorphic:Metamorphic", "does time change in the right direction when machine or work does?"
)
RESOURCES = OwnProperty("gpusim.explore.resources:Resources", "does more of a resource ever make it slower?", (KEY, BY))
INVARIANCE = OwnProperty(
    "gpusim.explore.properties:Invariance", "is the result the same whatever the window, order and threads?"
)
NUMPY = OwnProperty("gpusim.explore.properties:Numpy", "do the arrays hold NumPy's result?")
DEFECTS = OwnProperty(
    "gpusim.explore.defects:Defects", "do the memory, race, sync, leak and async checks find nothing?", (CHECKED,)
)
COUNTS = OwnProperty(
    "gpusim.explore.counts:Counts", "do counters that follow from the trace equal a count of the trace?"
)
VERSIONS = OwnProperty("gpusim.explore.versions:Versions", "does another gpusim say the same?", (OTHER_GPUSIM,))
SILICON = OwnProperty("gpusim.explore.measured_rows:Silicon", "is the time what was measured on silicon?", (ROWS,))

#: In the order in which they are named; pyproject.toml declares the same ones. They are found here where a source tree
#: has no metadata, or metadata of an older day.
OWN_PROPERTIES = {
    "bounds": BOUNDS,
    "analytic": ANALYTIC,
    "gpus": GPUS,
    "builds": BUILDS,
    "metamorphic": METAMORPHIC,
    "resources": RESOURCES,
    "invariance": INVARIANCE,
    "numpy": NUMPY,
    "defects": DEFECTS,
    "counts": COUNTS,
    "versions": VERSIONS,
    "silicon": SILICON,
}
