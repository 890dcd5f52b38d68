"""How sure a predicted time is: prediction intervals from what was held out in validation."""
