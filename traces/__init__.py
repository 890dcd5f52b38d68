"""Measured figures and recorded traces that ship with gpusim: data, no code."""
