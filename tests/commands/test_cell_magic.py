"""The cell magic: a query as a cell."""

import pandas as pd
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

import cepkit as cep
from cepkit.errors import CepError

FRAME = pd.DataFrame({"user": list("uvuuv"), "kind": list("aabba"), "ts": range(5), "x": [1, 2, 3, 2, 1]})


@pytest.fixture
def shell():
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "cepkit")
    shell.push({"clicks": FRAME})
    yield shell
    InteractiveShell.clear_instance()


def test_a_sequence_as_a_cell(shell):
    line = "clicks --order-by ts --event-type kind --partition-by user --within 3 --into found"
    matches = shell.run_cell_magic("cep", line, "PATTERN SEQ(a p,\n  b q)\n")
    keywords = {"event_type": "kind", "order_by": "ts", "partition_by": "user", "within": 3}
    expected = cep.match(FRAME, "PATTERN SEQ(a p, b q)", **keywords)
    pd.testing.assert_frame_equal(matches.to_frame(), expected.to_frame())
    assert shell.user_ns["found"] is matches and matches.count() == 2


def test_a_regex_with_its_conditions_below(shell):
    matches = shell.run_cell_magic(
        "cep", "clicks --order-by ts", ". up+ down\nup: x > prev(x)\ndown: x < prev(x)"
    )
    assert matches.lineage()["position"].tolist() == [0, 1, 2, 3]


def test_match_recognize(shell):
    text = "MATCH_RECOGNIZE (ORDER BY ts MEASURES LAST(UP.x) AS top PATTERN (UP+) DEFINE UP AS x > PREV(x))"
    assert shell.run_cell_magic("cep", "clicks", text).to_frame()["top"].tolist() == [3]


def test_the_explorer(shell):
    explorer = shell.run_cell_magic("cep", "clicks --order-by ts --explore", "up\nup: x > 1")
    assert isinstance(explorer, cep.Explorer)


def test_mistakes(shell):
    with pytest.raises(CepError, match=r"no variable 'click'\. Did you mean 'clicks'"):
        shell.run_cell_magic("cep", "click", "up\nup: x > 1")
    with pytest.raises(UsageError, match=r"unrecognized arguments.*--order-by ts"):
        shell.run_cell_magic("cep", "clicks order_by=ts", "up\nup: x > 1")
    with pytest.raises(CepError, match="column 'y' not found"):
        shell.run_cell_magic("cep", "clicks --order-by ts", "up\nup: y > 1")
