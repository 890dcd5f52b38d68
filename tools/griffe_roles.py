"""Docstrings as Markdown: the roles that Sphinx knows (``:func:`gpusim.capture```) and double backticks become code.

Mental model: the project's docstrings are written to be read in the source, with Sphinx's roles. :func:`plain` turns a
text into Markdown; :class:`Roles` is the extension of griffe (which reads the sources for mkdocstrings) that does so
for every docstring of the API reference. mkdocs.yml names this file.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

_ROLE = re.compile(r":[a-z]+:`(~?)(?:[^`<]*<)?([\w.]+)>?`")


def plain(text: str) -> str:
    """``text`` with roles and double backticks as Markdown's code."""
    text = _ROLE.sub(lambda found: f"`{found[2].rsplit('.', 1)[-1] if found[1] else found[2]}`", text)
    return re.sub(r"``([^`]+)``", r"`\1`", text)


class Roles(Extension):
    """Rewrites each docstring when griffe has read its object."""

    def on_instance(self, *, obj: Any, **kwargs: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = plain(obj.docstring.value)
