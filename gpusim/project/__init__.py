"""Whole models projected: from a network's sizes and a plan of parallelism to operators, times, memory, energy and what
limits them."""
