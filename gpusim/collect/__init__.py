"""One daemon a node that adds up what recorded processes launch, keeps it, and hands it on: ``gpusim collect``."""
