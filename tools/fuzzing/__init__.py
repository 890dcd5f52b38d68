"""What tools/fuzz.py is made of: targets, their seeds and mutations, the judge of one input, and the engines that make
inputs."""
