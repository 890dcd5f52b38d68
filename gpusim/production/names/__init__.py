"""What a kernel's name says of it."""
