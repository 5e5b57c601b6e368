"""Texts as plotly shows them: names taken literally, and no longer than there is room."""

from __future__ import annotations

import html

NAME_CHARACTERS = 40


def escaped(text: object) -> str:
    """Return ``text`` so that plotly shows its characters: no tags, no entities, no ``%{…}``."""
    return html.escape(str(text), quote=False).replace("%{", "%&#123;")


def cut(name: str) -> str:
    """Return the beginning of a long name."""
    return name if len(name) <= NAME_CHARACTERS else name[: NAME_CHARACTERS - 1] + "…"
