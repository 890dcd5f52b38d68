"""What each kind of measured operator is: which rows count, what shape they have, and how it is projected
(tools/tile_operators.py)."""
