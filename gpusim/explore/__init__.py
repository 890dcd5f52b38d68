"""Workloads made by Hypothesis, what they have exercised, and the divergences that they found."""
