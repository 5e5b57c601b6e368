"""The door to recorded data, which does not come with cepkit."""

import pandas as pd
import pytest

from cepkit.errors import CepError
from papers.recorded import RECORDED, RecordedDataError, has_recorded, recorded


def test_door_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.delenv("CEPKIT_DATA", raising=False)
    assert not has_recorded("trades")
    with pytest.raises(RecordedDataError, match=r"set CEPKIT_DATA to a folder that has inet_trades\.parquet"):
        recorded("trades")
    monkeypatch.setenv("CEPKIT_DATA", str(tmp_path))
    assert not has_recorded("trades")
    with pytest.raises(RecordedDataError, match=r"there is no inet_trades\.parquet"):
        recorded("trades")
    pd.DataFrame({"ts": [1], "symbol": ["A"]}).to_parquet(tmp_path / "inet_trades.parquet")
    assert has_recorded("trades")
    with pytest.raises(RecordedDataError, match="has no column price, size, seq; there are ts, symbol"):
        recorded("trades")
    with pytest.raises(CepError, match=r"no recorded data 'trade'; .*Did you mean 'trades'"):
        recorded("trade")


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_data_have_the_columns_that_experiments_read(name, reference, monkeypatch):
    monkeypatch.setenv("CEPKIT_DATA", str(reference / "data"))
    frame = recorded(name)
    assert len(frame) > 5000
    assert set(RECORDED[name].columns) <= set(frame.columns)
