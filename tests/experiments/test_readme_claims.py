"""The README says of each paper notebook what its claims say on the kept tables, and no more."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cepkit.experiments.claims import Finding, count_verdicts, examine
from cepkit.experiments.kept_tables import kept_table

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "notebooks" / "results"


def match_regex() -> list[Finding]:
    from cepkit.partition_and_compose.experiments.over_seeds import kept_results
    from cepkit.partition_and_compose.experiments.paper_claims import CLAIMS

    return examine(CLAIMS, kept_results(RESULTS))


def linked_cep() -> list[Finding]:
    from cepkit.linked.experiments.claims import claims

    return examine(claims(), kept_table(RESULTS / "linked_cep_claims.csv"))


def hybrid_parallel() -> list[Finding]:
    from cepkit.parallel.experiments.claims import CLAIMS
    from cepkit.parallel.experiments.results import kept_results

    return examine(CLAIMS, kept_results(RESULTS))


def load_shedding() -> list[Finding]:
    from cepkit.shedding.experiments.claims import CLAIMS
    from cepkit.shedding.experiments.results import kept_results

    return examine(CLAIMS, kept_results(RESULTS))


def scatter_gather() -> list[Finding]:
    from cepkit.scaleout.experiments.claims import CLAIMS
    from cepkit.scaleout.experiments.results import kept_results

    return examine(CLAIMS, kept_results(RESULTS))


NOTEBOOKS: dict[str, Callable[[], list[Finding]]] = {
    "10_match_regex": match_regex,
    "20_linked_cep": linked_cep,
    "30_hybrid_parallel": hybrid_parallel,
    "40_load_shedding": load_shedding,
    "50_scatter_gather": scatter_gather,
}


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_the_readme_counts_the_claims_that_hold(notebook):
    [row] = [
        line for line in (ROOT / "README.md").read_text("utf-8").splitlines() if f"| [`{notebook}`]" in line
    ]
    assert count_verdicts(NOTEBOOKS[notebook]()) in row
