"""What tools/validate.py is made of: sets of measurements, predictions of their rows, figures over them, and the
page."""
