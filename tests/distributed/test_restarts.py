"""A run whose ranks are started again goes on from its last checkpoint: the losses are those of a run that nothing
interrupts."""
import subprocess
import sys
from pathlib import Path

import pytest

from .leftovers import shared_memory, staying

PROGRAM = Path(__file__).with_name("resumed.py")
STEPS, EVERY, FAILS, LIMIT = 8, 3, 5, 1500


def trained(folder, restarts, fails, how="killed", count=2):
    """(attempt, step, loss) lines of each rank."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "rushlight.distributed.run", "--standalone", "--nproc-per-node", str(count),
         "--max-restarts", str(restarts), str(PROGRAM), *map(str, (folder, STEPS, EVERY, fails, how))],
        capture_output=True, text=True, timeout=LIMIT)
    return done, [[line.split() for line in (folder / f"losses.{rank}").read_text().splitlines()]
                  for rank in range(count)]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    done, found = trained(tmp_path_factory.mktemp("whole") / "run", 0, -1)
    assert done.returncode == 0, done.stderr
    assert found[0] == found[1] and [int(step) for _, step, _ in found[0]] == list(range(STEPS))
    return [loss for _, _, loss in found[0]]


@pytest.mark.parametrize("how", ["killed", pytest.param("raises", marks=pytest.mark.long),
                                 pytest.param("exits", marks=pytest.mark.long)])
def test_losses_go_on(how, uninterrupted, tmp_path):
    before = shared_memory()
    done, found = trained(tmp_path / "run", 1, FAILS, how)
    assert done.returncode == 0, done.stderr
    first = FAILS // EVERY * EVERY  # where the last checkpoint was made
    for lines in found:
        attempts = {attempt: [(int(step), loss) for a, step, loss in lines if a == attempt] for attempt in "01"}
        # another rank than the one that fails may be stopped before it has noted its last step
        assert attempts["0"] in (list(enumerate(uninterrupted))[:FAILS], list(enumerate(uninterrupted))[:FAILS - 1])
        assert attempts["1"] == list(enumerate(uninterrupted))[first:]
    assert not staying(shared_memory, before)
