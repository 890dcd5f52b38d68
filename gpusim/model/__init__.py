"""The hardware's components, one a file: a state of typed arrays and small jitted functions."""
