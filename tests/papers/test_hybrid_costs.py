"""The table of the cost model of hybrid agents."""

import pytest

from cepkit.errors import CepError
from cepkit.parallel.model import AgentRates
from papers.hybrid_parallel.details import evaluations_per_agent

FOUR = AgentRates((1.0, 2.0, 0.5, 1.0), 6.0, (1.0, 0.5, 0.2, 1.0))


def test_errors_are_relative_to_what_was_counted():
    # 1 * 2 * 6; of (1 * 2 * 0.5 * 6) with 0.5 * 6 / 2; of (6 * 0.5 * 0.2 * 6 / 2) with 6 / 3, per second
    compared = [(240, 0), (90, 90), (0, 0)]
    table = evaluations_per_agent(FOUR, compared, 10.0).set_index(["source", "agent"])
    assert table.loc["measured", "per_second"].tolist() == [24.0, 18.0, 0.0]
    assert table.loc["simplex", "per_second"].tolist() == pytest.approx([12.0, 9.0, 3.6])
    assert table.loc["simplex", "error"].tolist()[:2] == pytest.approx([-0.5, -0.5])
    assert table.loc["paper, one side", "per_second"].tolist() == pytest.approx([12.0, 18.0, 21.6])
    assert table.loc["paper", "per_second"].tolist() == pytest.approx([24.0, 36.0, 43.2])
    assert table["error"].isna().sum() == 4 and (table.loc["measured", "error"].dropna() == 0).all()


def test_counts_that_do_not_fit():
    with pytest.raises(CepError, match=r"compared: 1 counts. There must be 3"):
        evaluations_per_agent(FOUR, [(1, 1)], 1.0)
    with pytest.raises(CepError, match="duration_s=0: events that span no time"):
        evaluations_per_agent(FOUR, [(1, 1)] * 3, 0)
