"""The parts that own time: SM groups, dispatcher, L2, DRAM, and the conductor that runs them in windows."""
