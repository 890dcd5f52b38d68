"""Which commit, compiler version or figure of a GPU changed what a case costs, found in logarithmic runs."""
