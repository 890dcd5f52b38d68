"""Kernels that others published and measured, written again after their description, for ``tools/validate.py``.

Mental model: a set of measurements (``traces/external``) names a family here;
:data:`gpusim.workloads.external.families.FAMILIES` makes of one row of it the launch that was timed.
"""
