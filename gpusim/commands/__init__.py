"""The commands of the gpusim shell tool, one group a file; imported only when one is called."""
