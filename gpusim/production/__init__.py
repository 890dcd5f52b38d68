"""What production launches, from recordings and from traces of other tools: totals by kernel and shape, and facts of timing."""
