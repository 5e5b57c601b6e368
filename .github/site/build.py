#!/usr/bin/env python3
"""Build the documentation site: ``.venv/bin/python .github/site/build.py``; then open build/site/index.html.

It takes the notebooks with their outputs, the docstrings and the list of changes, and needs no network. It
fails if Sphinx warns, if a link leads nowhere, or if a page would load anything from another server.
"""

import base64
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import cepkit

ROOT = Path(__file__).resolve().parents[2]
SOURCE, SITE = ROOT / "build" / "site-source", ROOT / "build" / "site"
_LIVE = "application/vnd.jupyter.widget-view+json", "application/vnd.plotly.v1+json"
# The reference by topic: title, what the page says first, names of `cepkit`.
TOPICS = {
    "Find matches": (
        "A query, a frame and its keywords give matches, which are counted, listed, sampled and drawn.",
        "match tag Matches Match SparkMatches CountEstimate explore Explorer view",
    ),
    "Ask about a query": (
        "How a query runs, where matches are lost, and why a row is in none.",
        "explain Explanation funnel FunnelResult why_not WhyNot step Moment PartialMatch",
    ),
    "Everyday questions": (
        "States, sessions, transactions, running values and pairs of streams.",
        "runs sessions transaction window Window join Join recipes vocabulary",
    ),
    "Queries as values": (
        "Patterns built in Python, and what conditions can use.",
        "regex_query RegexQuery sequence_query SequenceQuery seq all_of any_of event param var function pure "
        "corr cosine l2",
    ),
    "Other languages": (
        "Texts of SQL, SiddhiQL, EQL and Sigma run on frames, and queries are translated.",
        "sql siddhi eql sigma translate",
    ),
    "Streams and overload": (
        "Events that arrive in batches, and more of them than a machine can take.",
        "stream Stream SparkStream KSlack replay Darling Cohesive",
    ),
    "Parallel and scaled-out engines": (
        "Engines of the papers as values, in virtual time and over nodes.",
        "simulate Hybrid Sequential StateParallel RIP DataParallel Costs ParallelRun Trace plan "
        "ScatterGather",
    ),
    "Errors and warnings": (
        "Each error says what is wrong, where, and what there is instead.",
        "CepError ColumnNotFoundError MissingDependencyError OrderError PatternSyntaxError PredicateError "
        "ResultTooLargeError UnsupportedQueryError CepWarning TieWarning",
    ),
}


def main() -> None:
    """Collect the sources, call Sphinx, and check the pages."""
    for folder in (SOURCE, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(Path(__file__).parent, SOURCE, ignore=shutil.ignore_patterns("build.py", "__pycache__"))
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        (SOURCE / path.name).write_text(json.dumps(for_pages(json.loads(path.read_text("utf-8")))), "utf-8")
    changes = (ROOT / ".github" / "CHANGELOG.md").read_text("utf-8")
    (SOURCE / "changes.md").write_text(without_files(changes), "utf-8")
    shutil.copy(ROOT / ".github" / "explorer.png", SOURCE)
    write_reference()
    write_gallery()
    arguments = ["-b", "html", "-q", "-W", "--keep-going", str(SOURCE), str(SITE)]
    subprocess.run([sys.executable, "-m", "sphinx", *arguments], check=True)
    if findings := [*broken_links(), *foreign_files()]:
        sys.exit("\n".join(findings))
    print(f"{SITE / 'index.html'}: {len(list(SITE.rglob('*.html')))} pages, all links lead somewhere")


def for_pages(notebook: dict) -> dict:
    """Return a notebook with stills, tables and texts; what needs a kernel or a script is left out."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = without_files("".join(cell["source"]))
        for output in cell.get("outputs", []):
            for kind in _LIVE:
                output.get("data", {}).pop(kind, None)
            if "image/png" in output.get("data", {}):
                output["data"].pop("text/html", None)
        cell.update(
            {"outputs": [o for o in cell["outputs"] if o.get("data", True)]} if "outputs" in cell else {}
        )
    return notebook


def write_gallery() -> None:
    """Write a page with all pictures of the notebooks, each with a link to its place."""
    folder = SOURCE / "pictures"
    folder.mkdir()
    lines = [
        "# Gallery",
        "",
        "All pictures of the notebooks. A title leads to the notebook that draws it.",
    ]
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        heading, page, number = "", path.stem, 0
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            text = "".join(cell["source"])
            if cell["cell_type"] == "markdown" and (titles := re.findall(r"^#+ (.+)", text, re.MULTILINE)):
                heading = titles[-1]
            for output in cell.get("outputs", []):
                if (image := output.get("data", {}).get("image/png")) is None:
                    continue
                lines += ["", f"## {heading_of(path)}", ""] * (number == 0)
                name, number = f"{page}_{number}.png", number + 1
                (folder / name).write_bytes(base64.b64decode(image))
                title = re.sub(r"[`*\[\]]", "", heading)
                figure = [
                    f"```{{figure}} pictures/{name}",
                    f":alt: {title}",
                    "",
                    f"[{title}]({path.name})",
                    "```",
                ]
                lines += ["", *figure]
    (SOURCE / "gallery.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


def heading_of(path: Path) -> str:
    """Return the title of a notebook."""
    first = "".join(json.loads(path.read_text("utf-8"))["cells"][0]["source"])
    return first.partition("\n")[0].lstrip("# ")


def without_files(text: str) -> str:
    """Return Markdown in which links to files of the repository are words."""
    return re.sub(r"\[([^\]]+)\]\((?!https?:|#)[^)]*?(?<!\.ipynb)\)", r"\1", text)


def write_reference() -> None:
    """Write a page for each topic, and the page that lists them."""
    named = [name for _, names in TOPICS.values() for name in names.split()]
    if sorted(named) != sorted(cepkit.__all__):
        sys.exit(f"TOPICS differs from cepkit.__all__: {sorted(set(named) ^ set(cepkit.__all__))}")
    pages = []
    for title, (about, names) in TOPICS.items():
        lines = [f"# {title}", "", about, "", "```{eval-rst}"]
        for name in names.split():
            is_class = isinstance(getattr(cepkit, name), type)
            lines += ["", f".. auto{'class' if is_class else 'function'}:: cepkit.{name}"]
            lines += ["   :members:"] * is_class
        pages.append(title.lower().replace(" ", "_").replace("-", "_"))
        (SOURCE / f"reference_{pages[-1]}.md").write_text("\n".join([*lines, "```", ""]), encoding="utf-8")
    toctree = ["```{toctree}", "90_language_reference", *(f"reference_{page}" for page in pages), "```"]
    about = "The languages of queries, and all names of `import cepkit as cep` by topic."
    lines = ["# Reference", "", about, "", *toctree, ""]
    (SOURCE / "reference.md").write_text("\n".join(lines), encoding="utf-8")


class Page(HTMLParser):
    """The links, the anchors and the files of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.files: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag leads to, loads, or is called."""
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        self.files += [values[name] for name in ("src",) if name in values]
        if tag == "link" and values.get("rel") not in ("canonical", "search", "index", "next", "prev"):
            self.files += [values["href"]] if "href" in values else []


def broken_links() -> list[str]:
    """Return a line for each link or file within the site that leads nowhere."""
    pages = {path: Page(path) for path in SITE.glob("*.html")}
    findings = []
    for path, page in pages.items():
        for link in [*page.links, *page.files]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            address, anchor = urldefrag(link)
            target = path if not address else (path.parent / unquote(urlsplit(address).path)).resolve()
            if not target.exists():
                findings.append(f"{path.name}: {link} does not exist")
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                findings.append(f"{path.name}: {link} has no such place")
    return findings


def foreign_files() -> list[str]:
    """Return a line for each script, style or picture that a page would load from another server."""
    return [
        f"{path.name}: loads {file}"
        for path in SITE.glob("*.html")
        for file in Page(path).files
        if urlsplit(file).netloc
    ]


if __name__ == "__main__":
    main()
