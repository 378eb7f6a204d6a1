"""torchao as it is installed: programs quantized after their export, and weights alone."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torchao")
pytestmark = pytest.mark.processor
ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def told():
    done = subprocess.run([sys.executable, "-m", "rushlight", ROOT / "tests/quantization/torchao_models.py"],
                          capture_output=True, text=True, timeout=600,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name, floor", [("exported False", 50), ("exported True", 50), ("int8", 55), ("float8", 40),
                                         ("int8 dynamic", 50)])
def test_models_are_near_those_of_floats_and_compiled_ones_near_them(told, name, floor):
    near, compiled, _ = told[name]
    assert near > floor and compiled > 100


def test_programs_have_the_operators_that_they_have_with_pytorch(told):
    rest = ["aten.add.Tensor", "aten.gelu.default", "aten.layer_norm.default", "aten.linear.default"]
    room = "quantized_decomposed"
    assert told["exported False"][2] == [*rest, f"{room}.dequantize_per_channel.default",
                                         f"{room}.dequantize_per_tensor.default",
                                         f"{room}.quantize_per_tensor.default"]
    assert told["exported True"][2] == ["<built-in function getitem>", *rest, f"{room}.choose_qparams.tensor",
                                        f"{room}.dequantize_per_channel.default",
                                        f"{room}.dequantize_per_tensor.tensor",
                                        f"{room}.quantize_per_tensor.tensor"]


def test_weights_take_a_byte(told):
    assert all(told[name][2] == 1 for name in ("int8", "float8", "int8 dynamic"))
