"""The case of a launch that a command line describes (:mod:`gpusim.cases.native_shapes`): its arrays made, its kernel
named.

Mental model: there is no check of the result, for nobody has said what is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpusim.cases.case_forms import CaseLaunch, UserCase
from gpusim.cases.native_arguments import parse_kernel_argument
from gpusim.cases.native_shapes import ARGUMENT_AXIS, cluster_of, launch_of, load_native, read_axis, substituted


def make_native_case(name: str, shape: Mapping[str, Any]) -> UserCase:
    """The launch of ``name`` with a complete ``shape``, its arrays made."""
    grid, block, shared_bytes, names = launch_of(name, shape)
    arguments = [axis for axis in shape if ARGUMENT_AXIS.match(axis)]
    values = tuple(
        read_axis(name, axis, shape[axis], lambda text: parse_kernel_argument(substituted(text, shape), names))
        for axis in arguments
    )
    cluster = cluster_of(name, shape, names)
    return UserCase((CaseLaunch(load_native(name, shape), grid, block, values, shared_bytes, cluster=cluster),))
