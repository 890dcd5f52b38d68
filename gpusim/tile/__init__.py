"""Library kernels by their behaviour: tile programs on a described GPU, where no machine code is at hand."""
