"""The parts that own time (SM groups, dispatcher, L2, DRAM, links), the graph that they form, and the scheduler that
runs them in windows."""
