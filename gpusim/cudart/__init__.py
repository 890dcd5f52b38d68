"""The CUDA runtime library over the emulated driver, for programs that are not Python."""
