"""Losses of models in parallel are those of one process, to 1e-5 over 50 steps, with dropout: random numbers of each
part of a batch begin where those of one process do."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed import parity

ROOT = Path(__file__).parents[2]


def launched(count, *arguments):
    """Runs ``parity.py`` in that many processes."""
    command = [sys.executable, "-m", "rushlight.distributed.run", "--standalone", "--nproc-per-node", str(count),
               str(ROOT / "tests" / "distributed" / "parity.py"), *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500)
    assert done.returncode == 0, done.stdout[-4000:]


EVERY = [("gpt", way, compiled) for way in ("ddp", "fsdp", "tp", "pp") for compiled in (False, True)]
EVERY += [("gpt", "2x2", False), *(("resnet", way, False) for way in ("ddp", "fsdp", "tp", "pp"))]


@pytest.mark.long
@pytest.mark.parametrize("name, way, compiled", EVERY)
def test_losses_are_those_of_one_process(name, way, compiled, tmp_path):
    expected = parity.alone(name, parity.SHARES[way], way == "pp")
    launched(parity.RANKS[way], name, way, "yes" if compiled else "no", tmp_path / "losses.json")
    found = json.loads((tmp_path / "losses.json").read_text(encoding="utf-8"))
    assert found == pytest.approx(expected, abs=1e-5)
