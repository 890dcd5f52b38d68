"""The suite's kernels in CUDA C++: one ``.cu`` file a subject, and modules that make cases of them."""
