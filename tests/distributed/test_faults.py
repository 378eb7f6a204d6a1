"""One rank of a world goes wrong: the right one is blamed, with its line, the others end with an error, and nothing is
left behind."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import faults
from .leftovers import shared_memory, sockets, staying

LINES = faults.lines()
SEEDS = [int(seed) for seed in os.environ.get("FAULT_SEEDS", "0").split(",")]  # which ranks go wrong, and when
NAMED = {"hang": "has not come", "slow": "has not come", "exit": "has ended", "exception": "has ended"}
# kind -> (the line at which the culprit is, that at which the others are): None where it is not looked at
WHERE = {"skip": ("second", "first"), "skip across": (None, None), "size": ("first", None), "dtype": ("first", None),
         "order": ("order", "first"), "order across": ("order across", "first"), "hang": ("hang", "first"),
         "exit": (None, "first"), "exception": ("exception", None), "slow": ("slow", "first")}


def of_session(number: int) -> list:
    """Processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            rest = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(rest[3]) == number and rest[0] != "Z":
            found.append(path.parent.name)
    return found


def injected(seed, kind, places):
    """What each world left, after nothing else is left of it."""
    before = shared_memory(), sockets()
    process = subprocess.Popen([sys.executable, "-m", "tests.distributed.faults", str(seed), kind, *places], text=True,
                               stdout=subprocess.PIPE, start_new_session=True, cwd=Path(__file__).parents[2])
    said, _ = process.communicate(timeout=1500)
    assert process.returncode == 0
    assert of_session(process.pid) == []
    assert not staying(shared_memory, before[0]) and not staying(sockets, before[1])
    return [json.loads(line) for line in said.splitlines()]


def check(found):
    assert "failed" not in found, found["failed"]
    kind, culprit = found["kind"], found["culprit"]
    assert found["ranks"] == [culprit] and not found["stuck"], found
    place, expected = WHERE[kind]
    if (kind, found["scope"]) == ("order across", "data"):
        place = expected = None  # two equal sums of one group changed places: the barrier between them tells
    assert place is None or found["place"] == f"{faults.__file__}:{LINES[place]}", found
    assert expected is None or found["expected"] == f"{faults.__file__}:{LINES[expected]}", found
    others = [text[-1] for rank, text in found["errors"].items() if int(rank) != culprit and text]
    assert len(others) == found["size"] - 1 and all("Error" in text for text in others), found
    if kind in NAMED:  # a member of the culprit's group says so
        assert any(NAMED[kind] in text and (f"{culprit} of the world" in text or f"rank {culprit} of the group" in text)
                   for text in others), found
    assert found["codes"].get(str(culprit)) == {"hang": None, "exit": 3}.get(kind, 1), found


@pytest.mark.parametrize("kind", ["size", "exit", "exception"])
def test_the_culprit_is_found(kind):
    for found in injected(0, kind, ["tensor:4"]):
        check(found)


@pytest.mark.long
@pytest.mark.parametrize("kind", faults.KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_culprit_is_found(seed, kind):
    places = [place for place in faults.PLACES if place not in faults.HARMLESS.get(kind, ())]
    found = injected(seed, kind, places)
    assert len(found) == len(places)
    for each in found:
        check(each)
