"""The examples run unmodified under ``python -m rushlight``."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

from .startup.machine_code import search_path

ROOT = pathlib.Path(__file__).resolve().parents[1]


def run(name, *options):
    command = [sys.executable, "-m", "rushlight", ROOT / "examples" / name, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500,
                          env={**os.environ, "PYTHONPATH": search_path(ROOT)})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_digits_learns_in_one_epoch(tmp_path):
    accuracy = re.search(r"accuracy ([\d.]+)%",
                         run("digits.py", "--epochs", "1", "--picture", tmp_path / "mistakes.png"))
    assert float(accuracy[1]) > 80
    assert (tmp_path / "mistakes.png").stat().st_size > 1000


def test_every_kind_of_attention_equals_its_formula(tmp_path):
    lines = run("masks.py", "--picture", tmp_path / "masks.png").splitlines()
    assert len([line for line in lines if "of the weights" in line]) == 7


def test_networks_of_bytes_find_the_classes_that_floats_find():
    lines = run("int8.py", "--epochs", "6").splitlines()
    agreement = {line.split()[0]: float(re.search(r"([\d.]+)% as float32", line)[1]) for line in lines[1:]}
    assert {"fx", "dynamic"} <= set(agreement) and min(agreement.values()) >= 99


def test_aot_compiled_models_run_in_another_process(tmp_path):
    path = tmp_path / "model.so"
    assert run("announcements/aot_inductor.py", "compile", path).split() == [str(path)]
    assert run("announcements/aot_inductor.py", "run", path).strip() == "torch.Size([8, 1])"


def test_packages_of_data_dependent_and_random_programs_run_in_another_process(tmp_path):
    run("announcements/packages.py", "compile", tmp_path)
    wanted = [f"{name} examples" for name in ("Branches", "Selection", "Noise")]
    assert run("announcements/packages.py", "run", tmp_path).splitlines() == wanted


def test_frozen_traces_run_and_load_without_their_class(tmp_path):
    assert run("announcements/onednn_graph.py", "save", tmp_path / "model.pt").split() == [
        *["True"] * 3, "torch.bfloat16"]
    assert run("announcements/onednn_graph.py", "load", tmp_path / "model.pt").splitlines() == [
        "True", "torch.Size([2, 10])"]
