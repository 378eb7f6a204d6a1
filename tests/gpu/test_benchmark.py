"""The measurements of a GPU run on the library that stands in for a driver."""
import json
import pathlib
import subprocess
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_it_runs_dry(tmp_path):
    out = tmp_path / "gpu.json"
    done = subprocess.run([sys.executable, "-m", "tests.gpu.dry_rows", "--dry", "--parts",
                           "kernels,claims,calls,models", "--cases", "nanogpt", "--precisions", "bfloat16",
                           "--modes", "training", "--out", str(out)],
                          cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())
    assert rows["device"]["name"] == "a stub" and rows["call add, us"]["rushlight"] > 0
    assert all(isinstance(one, float) for one in rows["claim product 512 bfloat16 gelu, ms"].values())
    assert all(isinstance(one, float) for one in rows["claim convolution bfloat16 weight, ms"].values())
    found = rows["nanogpt training bfloat16, ms"]
    assert all(isinstance(found[system], float) for system in ("rushlight", "rushlight.compile", "rushlight.graphs"))


def test_a_process_that_fails_costs_its_row(tmp_path, monkeypatch):
    """A failure, a signal and what takes too long are told in a line, and tried again by the next run."""
    from benchmarks import gpu

    class Options:
        dry, minutes = True, 1

    sheet = gpu.Sheet(tmp_path / "rows.json", False)
    done = iter([subprocess.CompletedProcess((), -11, "", "went wrong"), subprocess.TimeoutExpired((), 10)])

    def run(*args, **given):
        found = next(done)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(gpu.subprocess, "run", run)
    for name, wanted in (("one", "status -11: went wrong"), ("two", "not done after")):
        sheet.add(name, gpu.child(Options, sheet, "--kernel", name))
        assert wanted in sheet.rows[name]["failed"]
        assert gpu.Sheet(sheet.path, False).wants(name)
    sheet.add("three", {"rushlight": 1.0})
    assert not sheet.wants("three")


def test_what_a_first_run_prints_is_short(tmp_path, capsys):
    """All rows of checks and claims, had each of them failed, are less than a page of 12,000 characters."""
    from benchmarks import gpu

    sheet = gpu.Sheet(tmp_path / "rows.json", False)
    for name in (*gpu.CHECKS, *gpu.CLAIMS, "device", "geometric means", "goals"):
        sheet.add(name, {"ours": "status 1: " + "x" * 300, "library": "status 1: " + "x" * 300})
    assert len(capsys.readouterr().out) < 12000
    assert len(sheet.rows["goals"]["library"]) > 300  # the file has all of it


def test_figures_of_a_gpu_come_into_the_table(tmp_path, monkeypatch):
    from benchmarks import predicted

    device = {"name": "H200", "architecture": "sm_90", "dry": False}
    (tmp_path / "h200.json").write_text(json.dumps({"device": device, "copy, GB/s": {"rushlight": 4000.5}}))
    (tmp_path / "other.json").write_text(json.dumps([1]))
    monkeypatch.setattr(predicted, "RESULTS", tmp_path)
    assert predicted.measured("copy, GB/s").startswith("H200: 400")
    assert predicted.measured("sum, GB/s") == predicted.NONE


def test_an_operator_that_fails_once_is_counted(monkeypatch):
    """Its row says so, whatever later rounds give; others are measured."""
    from benchmarks import gpu

    rounds = iter([True] + [False] * 100)

    def add():
        if next(rounds):
            raise ValueError("once")

    library = types.SimpleNamespace(cuda=types.SimpleNamespace(synchronize=lambda: None))
    monkeypatch.setattr(gpu, "operators", lambda library: {"add": add, "view": lambda: None})
    figures = gpu.called({"rushlight": library}, 1)
    assert figures["add"] == {"rushlight": "ValueError: once"} and figures["view"]["rushlight"] >= 0
    assert gpu.whole_of(figures) == {"failed": "1 of 2: add"}
    assert gpu.whole_of({"view": figures["view"]}) == {"ok": 1}
