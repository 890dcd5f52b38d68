"""What changed in a history of simulations, when, and to whom it belongs."""
