"""Texts for plotly: names are shown literally and cut to fit."""

from __future__ import annotations

import html

NAME_CHARACTERS = 40


def escaped(text: object) -> str:
    """Return ``text`` so that plotly shows it literally: no tags, no entities, no ``%{…}``."""
    return html.escape(str(text), quote=False).replace("%{", "%&#123;")


def cut(name: str) -> str:
    """Return the name, cut when it is longer than ``NAME_CHARACTERS``."""
    return name if len(name) <= NAME_CHARACTERS else name[: NAME_CHARACTERS - 1] + "…"
