"""Measurements that others took, in the files that their tools write, as rows like our own.

``read_rows(path)`` tells the format by the file's content; the formats are a file each in this folder, and what other
packages declare as entry points of the group ``gpusim.importers``.
"""

from gpusim.silicon.imports.formats import read_rows

__all__ = ["read_rows"]
