"""What a front end hands over and everything behind it takes: a kernel's binary, its launch, and device memory."""
