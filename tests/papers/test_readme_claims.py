"""The README says of each paper notebook what its claims say on the kept tables, and no more."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from papers.claims import UNSAID, YES, Finding, count_verdicts, examine
from papers.tables import kept_table

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "notebooks" / "results"


def match_regex() -> list[Finding]:
    from papers.match_regex.claims import CLAIMS
    from papers.match_regex.over_seeds import kept_results

    return examine(CLAIMS, kept_results(RESULTS))


def linked_cep() -> list[Finding]:
    from papers.linked_cep.claims import claims

    return examine(claims(), kept_table(RESULTS / "linked_cep_claims.csv"))


def hybrid_parallel() -> list[Finding]:
    from papers.hybrid_parallel.claims import CLAIMS
    from papers.hybrid_parallel.results import kept_results

    return examine(CLAIMS, kept_results(RESULTS))


def load_shedding() -> list[Finding]:
    from papers.load_shedding.claims import CLAIMS
    from papers.load_shedding.results import kept_results

    return examine(CLAIMS, kept_results(RESULTS))


def scatter_gather() -> list[Finding]:
    from papers.scatter_gather.claims import CLAIMS
    from papers.scatter_gather.results import kept_results

    return examine(CLAIMS, kept_results(RESULTS))


NOTEBOOKS: dict[str, Callable[[], list[Finding]]] = {
    "10_match_regex": match_regex,
    "20_linked_cep": linked_cep,
    "30_hybrid_parallel": hybrid_parallel,
    "40_load_shedding": load_shedding,
    "50_scatter_gather": scatter_gather,
}


def real_nodes() -> list[Finding]:
    from papers.real_nodes.measuring import FILE
    from papers.scatter_gather.claims import REAL_CLAIMS
    from papers.scatter_gather.results import kept_results

    return examine(REAL_CLAIMS, kept_results(RESULTS, FILE))


@cache  # two tests read the findings of a notebook
def findings_of(notebook: str) -> list[Finding]:
    return NOTEBOOKS[notebook]()


def row_of(notebook: str) -> str:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    [row] = [line for line in lines if f"| [`{notebook}`]" in line]
    return row


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_the_readme_counts_the_claims_that_hold(notebook):
    assert count_verdicts(findings_of(notebook)) in row_of(notebook)


def test_the_readme_counts_the_claims_that_hold_on_real_nodes():
    assert f"on real nodes {count_verdicts(real_nodes())}" in row_of("50_scatter_gather")


@pytest.mark.parametrize("notebook", ["20_linked_cep", "30_hybrid_parallel"])
def test_a_row_that_does_not_simply_hold_names_the_test_of_its_reason(notebook):
    texts = [path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py")]
    defined = set(re.findall(r"^def (test_\w+)\(", "\n".join(texts), re.MULTILINE))
    findings = [of for of in findings_of(notebook) if of.verdict not in (YES, UNSAID)]
    assert findings
    assert {
        of.claim.statement: of.claim.shown_by for of in findings if of.claim.shown_by not in defined
    } == {}
