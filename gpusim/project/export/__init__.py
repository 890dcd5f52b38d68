"""Projections written as the profile tables that simulators of serving read, for GPUs that nobody has measured."""
