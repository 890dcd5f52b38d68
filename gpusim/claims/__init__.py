"""Whether a claimed time of a kernel is possible, and whether what was timed did all of its work."""
