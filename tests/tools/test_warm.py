"""Kernels that are made beforehand are found by other programs."""

import os
import subprocess
import sys

import pytest

from rushlight.tools import warm

SMALL = """
from rushlight.tools import warm
warm.KINDS = {"small": (lambda: warm.Transformer(True, 64, 32), lambda: tuple(x % 32 for x in warm.words(1, 16)))}
warm.main(["small", "--float32"])
"""


def run(folder):
    done = subprocess.run([sys.executable, "-c", SMALL], env={**os.environ, "RUSHLIGHT_CACHE": str(folder)},
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split(":")[1].split()[0])


def test_a_second_process_makes_nothing(tmp_path):
    assert run(tmp_path) > 10
    assert run(tmp_path) == 0


def test_kinds_that_there_are_not(capsys):
    with pytest.raises(SystemExit):
        warm.main(["decoders"])
    assert "no kind 'decoders' of model; there are decoder, encoder" in capsys.readouterr().err
