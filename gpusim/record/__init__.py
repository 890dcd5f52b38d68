"""What other processes launch: a library that is loaded into them counts, and :mod:`gpusim.collect` adds up over
processes."""
