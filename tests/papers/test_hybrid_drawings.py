"""Pictures of the HYPERSONIC paper: networks of agents."""

import xml.etree.ElementTree as ET
from itertools import pairwise

import pandas as pd
import pytest

from cepkit.errors import CepError, ColumnNotFoundError
from papers.hybrid_parallel.drawings import network_svg

SVG = "{http://www.w3.org/2000/svg}"


def network() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "agent": ["b:1", "c+", "<d>"],
            "events": ["B & Co", "C", "D"],
            "start": ["A", None, None],
            "next": ["c+", "<d>", None],
            "loops": [False, True, False],
            "event_threads": [1, 2, None],
            "sent": [1234, None, None],
        }
    )


def test_svg_of_a_network():
    svg = network_svg(network(), title="AND & <b>")
    root = ET.fromstring(svg)
    edges = {
        group.findtext(f"{SVG}title"): "".join(of.text for of in group.iter(f"{SVG}text"))
        for group in root.iter(f"{SVG}g")
        if group.get("class") == "edge"
    }
    assert edges == {
        "source->b:1:events": "B & Co", "source->b:1:partials": "A", "source->c+:events": "C",
        "source-><d>:events": "D", "b:1->c+:partials": "1,234", "c+->c+:partials": "loop",
        "c+-><d>:partials": "", "<d>->matches": "",
    }  # fmt: skip
    texts = [of.text for of in root.iter(f"{SVG}text")]
    assert {"AND & <b>", "b:1", "c+", "<d>", "source", "matches"} <= set(texts)
    assert [of for of in texts if "thread" in of] == ["1 thread", "2 threads"]
    assert svg.count("stroke-dasharray") == 1
    assert 'stroke="currentColor"' in svg and svg == network_svg(network(), title="AND & <b>")


@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_a_network_has_room_for_all_of_it(n):
    """Agents that send past others, too: a box is inside the picture, and none lies over another one."""
    labels = [f"agent {k}" * (1 + k % 3) for k in range(n)]
    following = [labels[k + 2] if k + 2 < n else None for k in range(n)]
    agents = pd.DataFrame(
        {"agent": labels, "events": "E" * 9, "start": "A", "next": following, "loops": True}
    )
    root = ET.fromstring(network_svg(agents))
    width, height = float(root.get("width")), float(root.get("height"))
    boxes = [
        [float(part.get(name)) for part in group.iter(f"{SVG}rect") for name in ("x", "y", "width", "height")]
        for group in root.iter(f"{SVG}g")
        if group.get("class") == "node" and group.find(f"{SVG}rect") is not None
    ]
    assert len(boxes) == n
    for one, other in pairwise(boxes):
        assert one[0] + one[2] < other[0]
    for box in boxes:
        assert box[0] > 0 and box[-4] + box[-2] < width and box[1] > 0 and box[-3] + box[-1] < height


def test_errors_of_networks():
    with pytest.raises(ColumnNotFoundError, match="network_svg: column 'loops' not found"):
        network_svg(network().drop(columns="loops"))
    with pytest.raises(CepError, match="Give each agent a label of its own"):
        network_svg(network().assign(agent="b"))
    with pytest.raises(CepError, match=r"next agent 'cc' is not known\. There are \['b:1', 'c\+', '<d>'\]"):
        network_svg(network().assign(next="cc"))
