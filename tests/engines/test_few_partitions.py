"""The rows and variables of a few matches come from the events of their partitions alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cepkit.engines.shared import match_set


@pytest.mark.parametrize("pattern", [". up+ down", "up{2,} (down | flat)* up"])
@pytest.mark.parametrize("seed", range(3))
def test_few_partitions_give_the_same_rows_and_variables(seed, pattern, monkeypatch):
    rng = np.random.default_rng(seed)
    n = 4000
    frame = pd.DataFrame({"k": rng.integers(0, 40, n), "x": rng.integers(0, 5, n)})
    define = {"up": "x > prev(x)", "down": "x < prev(x) and x < max(x)", "flat": "x = prev(x)"}
    define = {name: text for name, text in define.items() if name in pattern}
    found = frame.cep.match(pattern, define=define, partition_by="k")._found
    whole = found.whole
    of_partition = np.flatnonzero(whole.partition == whole.partition[seed])
    for numbers in (np.array([seed]), of_partition, np.flatnonzero(whole.partition < 6)):
        parts = []
        for many in (1 << 60, 0):
            monkeypatch.setattr(match_set, "_MANY", many)
            part = whole.take(numbers)
            parts.append((part.lineage, found.variables(part)))
            assert (part.in_few_partitions[1] is None) == (many > 0)
        (before, names), (after, own) = parts
        assert np.array_equal(before.event_of_item, after.event_of_item)
        assert before.event_of_item.dtype == after.event_of_item.dtype
        assert np.array_equal(before.first_item_of_match, after.first_item_of_match)
        assert names.tolist() == own.tolist()
