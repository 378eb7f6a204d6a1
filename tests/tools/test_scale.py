"""The model of large runs: what exchanges cost, how stages take turns, and which plans are chosen."""
import json
import xml.etree.ElementTree

import pytest

from rushlight.tools import scale
from rushlight.tools.links import Link, Topology
from rushlight.tools.scale import MODELS, Device, Model, Plan, best, predicted
from rushlight.tools.timeline import chrome, svg

TINY = Model(4, 64, 256, 100, 32)
FREE = Topology(8, Link(0.0, 1e30), Link(0.0, 1e30))


def test_parameters():
    assert 6.6e9 < MODELS["7B"].parameters < 6.9e9 and 68e9 < MODELS["70B"].parameters < 70e9


def test_exchanges():
    links = Topology(8, Link(1e-6, 100e9), Link(1e-5, 10e9))
    assert links.all_reduce(1e9, 8) == pytest.approx(2 * 7 * 1e-6 + 2 * 7 / 8 * 1e9 / 100e9)
    assert links.all_reduce(1e9, 1) == 0 and links.all_gather(1e9, 1) == 0
    far = links.all_reduce(1e9, 2, stride=8)  # one device of each of two machines
    assert far == pytest.approx(2 * 1e-5 + 1e9 / 10e9)
    assert links.all_reduce(1e9, 16) > links.all_reduce(1e9, 8) and links.near(16, 2) == 4
    assert links.all_reduce(8, 4096, 8) < 1e-3  # small sums go by a tree


def test_stages_take_turns():
    """With exchanges that cost nothing a pipeline takes (microbatches + stages - 1) turns of its slowest stage."""
    device = Device(rate=1e12, bandwidth=1e30, launch=0.0)
    headless = Model(4, 64, 256, 0, 32)
    one = predicted(headless, Plan(pipeline=1), 1, device, FREE).seconds
    four = predicted(headless, Plan(pipeline=4), 6, device, FREE).seconds
    assert four == pytest.approx(one / 4 * (6 + 3), rel=1e-6)
    for stages, count in ((4, 6), (3, 2), (1, 5)):
        for stage in range(stages):
            turns = scale.order(stage, stages, count)
            assert sorted(turns) == sorted([(b, k) for b in (False, True) for k in range(count)])
            assert all(turns.index((False, k)) < turns.index((True, k)) for k in range(count))


def test_measured_layers_stand_for_the_roofline():
    device = Device(layer={(32, 1): 1.0})
    assert predicted(TINY, Plan(), 2, device).seconds == pytest.approx(2 * 4 * 3, rel=0.01)


@pytest.mark.parametrize("devices", [8, 64])
def test_plans_fit_and_are_ordered(devices):
    found = best(MODELS["7B"], devices, 64, count=4)
    assert [f.seconds for f in found] == sorted(f.seconds for f in found)
    assert all(f.memory < 80e9 and f.plan.devices == devices for f in found)
    assert all(0 < f.utilization(MODELS["7B"], Device(), 64) <= 1 for f in found)


def test_what_cannot_be():
    with pytest.raises(ValueError, match="no plan for 8 devices"):
        best(MODELS["70B"], 8, 64)
    with pytest.raises(ValueError, match="divide evenly"):
        predicted(MODELS["7B"], Plan(data=3), 64)


def test_pictures(tmp_path, capsys):
    scale.main(["--devices", "8", "--count", "1", "--svg", str(tmp_path / "a.svg"), "--trace",
                str(tmp_path / "a.json")])
    assert "% of the rate" in capsys.readouterr().out
    xml.etree.ElementTree.parse(tmp_path / "a.svg")
    assert json.loads((tmp_path / "a.json").read_text())["traceEvents"]
    spans = predicted(TINY, Plan(pipeline=2), 4).spans
    assert svg(spans).count("<rect") == len(spans) == len(json.loads(chrome(spans))["traceEvents"])
