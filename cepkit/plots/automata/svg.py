"""DOT text and automata as SVG text: with the program `dot`, the Graphviz of a wheel, or neither."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from cepkit.compile.regex.automaton import States
from cepkit.errors import CepError, MissingDependencyError, nearest
from cepkit.parallel.plots.network import network_dot
from cepkit.plots import theme
from cepkit.plots.automata.automaton import automaton_dot
from cepkit.plots.automata.layered import layered_svg

if TYPE_CHECKING:
    import pandas as pd

ENGINES = ("dot", "neato", "fdp", "sfdp", "circo", "twopi")
MAX_STATES_DRAWN = 200
DOT_TIMEOUT_S = 60

_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}"
_OPENING = re.compile(
    r"""(?: \s | //[^\n]* | \#[^\n]* | /\*.*?\*/ )*  # spaces and comments
    (?: strict\s+ )? (?: di )? graph \s*
    (?: "(?: \\. | [^"\\] )*" | [\w.]+ )? \s* \{""",  # name
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)
_NUMBERED_ID = re.compile(r"(a_)?(graph|clust|node|edge)\d+(-label|-headlabel|-taillabel)?")


def dot_to_svg(source: str, *, engine: str = "dot") -> str:
    """Return the picture of DOT text as SVG text.

    Parameters
    ----------
    source : str
        A graph in DOT.
    engine : {"dot", "neato", "fdp", "sfdp", "circo", "twopi"}
        Graphviz's layout program.

    Returns
    -------
    str
        One ``<svg>`` element with neither prologue, comments nor numbered ids, so that it can stand in a page
        beside others. Nodes and edges are ``<g class="node">`` and ``<g class="edge">``; their first
        ``<title>`` is the name, tooltips are titles of the group inside.

    Raises
    ------
    CepError
        When ``engine`` is unknown, or Graphviz refuses ``source``; its message is quoted.
    MissingDependencyError
        When there is no program ``engine`` on the PATH and pygraphviz is not installed.

    Notes
    -----
    The program on the PATH comes first, then the Graphviz inside pygraphviz's wheel. Positions differ a
    little between versions of Graphviz; one version gives the same text each time.
    """
    if engine not in ENGINES:
        raise CepError(
            f"dot_to_svg: engine {engine!r} not known.{nearest(engine, ENGINES)} Engines: {list(ENGINES)}"
        )
    refusals = []
    for draw in (_drawn_by_program, _drawn_by_wheel):
        try:
            return _tidied(draw(source, engine))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, ET.ParseError, subprocess.SubprocessError) as refusal:
            refusals.append(" ".join(str(refusal).split()))
    if refusals:
        raise CepError(f"dot_to_svg: Graphviz cannot draw this text. {'; '.join(refusals)}")
    raise MissingDependencyError(
        f"dot_to_svg: neither the program {engine!r} nor pygraphviz was found. "
        'Install the extra: pip install "cepkit[viz]"'
    )


def automaton_svg(
    states: States,
    define: Mapping[str, str] | None = None,
    *,
    title: str | None = None,
    live: Mapping[int, int] | None = None,
    lit: Collection[int] = (),
) -> str:
    """Return a picture of ``states`` as SVG text, on any machine.

    It takes the colour of the text around it inside a notebook's page, and mid-tones elsewhere.

    Parameters
    ----------
    states : cepkit.compile.regex.automaton.States
        The automaton.
    define : mapping of str to str, optional
        Text of each predicate, for the tooltips of the edges.
    title : str, optional
        A line above the picture.
    live : mapping of int to int, optional
        How many partial matches are in a state. It is written below the states that have any.
    lit : collection of int
        States with a thick rim.

    Returns
    -------
    str
        One ``<svg>`` element. It is laid out by Graphviz when there is one (see `dot_to_svg`), else, and
        with ``live`` or ``lit``, by `cepkit.plots.automata.layered.layered_svg`: states stay where they are while
        events are gone through.

    Raises
    ------
    CepError
        Above 200 states, which nobody could read.

    Examples
    --------
    >>> from cepkit.compile.regex.automaton import positions, states
    >>> from cepkit.language.regex.patterns import seq, var
    >>> svg = automaton_svg(states(positions(seq(".", var("up").plus(), "down"))))
    >>> svg.startswith("<svg"), svg.count(">any</text>")
    (True, 1)
    """
    if states.n_states > MAX_STATES_DRAWN:
        raise CepError(
            f"automaton_svg: the automaton has {states.n_states} states; a picture has at most "
            f"{MAX_STATES_DRAWN}. automaton_dot gives its DOT text"
        )
    if live is not None or lit:
        return layered_svg(states, define, title=title, live=live, lit=lit)
    try:
        svg = dot_to_svg(automaton_dot(states, define=define, title=title))
    except CepError:  # no Graphviz, or one that does not work here
        return layered_svg(states, define, title=title)
    return _themed(svg, title or f"automaton with {states.n_states} states")


def network_svg(agents: pd.DataFrame, *, title: str | None = None) -> str:
    """Return a picture of agents as SVG text, by Graphviz; see `cepkit.parallel.plots.network.network_dot`.

    Raises
    ------
    MissingDependencyError
        When there is no Graphviz (see `dot_to_svg`).
    """
    svg = dot_to_svg(network_dot(agents, title=title))
    return _themed(svg, title or f"network of {len(agents)} agents")


def _drawn_by_program(source: str, engine: str) -> str:
    program = shutil.which(engine)
    if program is None:
        raise FileNotFoundError(engine)
    done = subprocess.run(
        [program, "-Tsvg"], input=source.encode(), capture_output=True, timeout=DOT_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise OSError(
            f"{engine}: {done.stderr.decode(errors='replace').strip() or f'exit {done.returncode}'}"
        )
    return done.stdout.decode()


def _drawn_by_wheel(source: str, engine: str) -> str:
    with _silenced_stderr():
        try:
            import pygraphviz
        except ImportError:
            raise FileNotFoundError("pygraphviz") from None
        svg = pygraphviz.AGraph(string=_with_default_labels(source)).draw(format="svg", prog=engine)
    return svg.decode() if isinstance(svg, bytes) else svg


def _with_default_labels(source: str) -> str:
    r"""Say in DOT text that a node without label shows its name, as `dot` itself assumes.

    Read by the wheel's library, one labelled node would make all others blank.

    >>> _with_default_labels("digraph g { a b [label=c] }")
    'digraph g { node [label="\\N"]; a b [label=c] }'
    """
    opening = _OPENING.match(source)
    return source if opening is None else f'{opening[0]} node [label="\\N"];{source[opening.end() :]}'


@contextlib.contextmanager
def _silenced_stderr() -> Iterator[None]:
    """Close file descriptor 2 to C code: the wheel's fontconfig warns there, and notebooks would show it."""
    if sys.stderr is not None:
        sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # a process without stderr has nothing to silence
        yield
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def _tidied(svg: str) -> str:
    """Keep what is drawn: no prologue, comments and ids that would occur twice in a page; plain tooltips."""
    if "<svg" not in svg:
        raise ValueError("no SVG came out")
    root = ET.fromstring(svg[svg.index("<svg") :])
    for parent in list(root.iter()):
        if _NUMBERED_ID.fullmatch(parent.get("id", "")):
            del parent.attrib["id"]
        for place, child in enumerate(list(parent)):
            if child.tag == f"{_SVG}a":
                parent[place] = _without_xlink(child)
            elif f"{_XLINK}href" in child.attrib:
                child.set("href", child.attrib.pop(f"{_XLINK}href"))
    return _as_text(root)


def _without_xlink(link: ET.Element) -> ET.Element:
    """Turn a link, which Graphviz also writes for a tooltip alone, into a group with a title."""
    target, tooltip = link.get(f"{_XLINK}href"), link.get(f"{_XLINK}title")
    group = ET.Element(f"{_SVG}a", {"href": target}) if target else ET.Element(f"{_SVG}g")
    if tooltip:
        ET.SubElement(group, f"{_SVG}title").text = tooltip
    group.extend(link)
    return group


def _themed(svg: str, label: str) -> str:
    root = ET.fromstring(svg)
    for element in root.iter():
        for paint in ("fill", "stroke"):
            if element.get(paint) == theme.INK:
                element.set(paint, "currentColor")
        if element.tag == f"{_SVG}text":
            element.attrib.pop("font-family", None)  # the root's
            element.attrib.pop("{http://www.w3.org/XML/1998/namespace}space", None)
    root.set("font-family", theme.MONOSPACE)
    root.attrib.update(theme.svg_attributes(label))
    return _as_text(root)


def _as_text(root: ET.Element) -> str:
    """Return the element without prefixes; ET's own writer would call the namespace ns0."""
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
    root.set("xmlns", "http://www.w3.org/2000/svg")
    return ET.tostring(root, encoding="unicode")
