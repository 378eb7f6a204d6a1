"""Legs of continuous integration: failing tests run again, flaky ones are counted, a time limit prints stacks."""
import gc
import os
import subprocess
import sys
import textwrap

import pytest

from .. import legs

WAS_ENABLED = gc.isenabled()  # while tests are collected
FLAKY = """
    import pathlib
    def test_once():
        seen = pathlib.Path(__file__).with_suffix(".seen")
        if not seen.exists():
            seen.touch()
            raise ValueError("the first time only")
    def test_always():
        assert {passes}
"""


@pytest.fixture
def run_file(tmp_path, monkeypatch, capfd):
    """Run one leg over a test file; return (exit status, output)."""
    def run(text, minutes=30.0, workers=0):
        path = tmp_path / "test_sample.py"
        path.write_text(textwrap.dedent(text))
        monkeypatch.setattr(legs, "LEGS", (legs.Leg("sample", minutes, (legs.pytest("-n", str(workers), str(path)),)),))
        return legs.main("sample"), capfd.readouterr().out
    return run


def test_a_test_that_passes_alone_is_flaky(run_file):
    code, output = run_file(FLAKY.format(passes=True))
    assert code == 0 and "1 FLAKY" in output and "ValueError: the first time only" in output


def test_more_flaky_tests_than_allowed_fail(run_file, monkeypatch):
    monkeypatch.setattr(legs, "MOST_FLAKY", 0)
    assert run_file(FLAKY.format(passes=True))[0] == 1


def test_a_test_that_fails_twice_fails_its_leg(run_file):
    code, output = run_file(FLAKY.format(passes=False))
    assert code == 1 and "FAILED twice" in output and "--- failed: sample" in output


def test_a_worker_that_crashes_fails_its_leg(run_file):
    text = FLAKY.replace('raise ValueError("the first time only")', "__import__('os').abort()").format(passes=True)
    code, output = run_file(text, workers=1)
    assert code == 1 and "crashed while running" in output and "--- failed: sample" in output


def test_a_file_that_cannot_be_collected_fails_its_leg(run_file):
    assert run_file("import nothing_of_this_name")[0] == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the processes of a leg are listed by ps")
def test_a_leg_that_takes_too_long_fails(run_file):
    code, output = run_file("import time\n\ndef test_sleeps():\n    time.sleep(600)", minutes=0.0)
    assert code == 1 and "time limit reached by" in output and "process " in output


@pytest.mark.skipif(sys.platform != "linux", reason="the processes of a leg are listed by ps")
def test_processes_print_stacks_before_they_end(capfd):
    program = "import time\ndef rest():\n    print(flush=True)\n    time.sleep(600)\nrest()"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True,
                               env={**os.environ, "PYTHONFAULTHANDLER": "1"})
    with process.stdout as told:
        told.readline()  # it rests
        assert legs.stop(process)
    output, errors = capfd.readouterr()
    assert f"process {process.pid}: {sys.executable}" in output and "in rest" in errors


def test_names_of_legs_are_checked():
    with pytest.raises(SystemExit):
        legs.main("no such leg")


def test_the_garbage_collector_waits_until_tests_are_collected():
    assert not WAS_ENABLED and gc.isenabled()
