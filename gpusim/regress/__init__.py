"""Old against new: the same launches twice, and where their difference comes from."""
