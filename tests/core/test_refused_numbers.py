"""Numbers, devices and lists that PyTorch refuses are refused by the same type of error."""
import io

import numpy as np
import pytest
import torch

import rushlight as rl
from rushlight._src.locations import Places

NUMBERS = [np.float16(1.5), np.float32(1.5), np.float64(1.5), np.int8(3), np.complex64(1), np.complex128(1), np.True_]


@pytest.mark.parametrize("to", ["int64", "uint8", "bool", "float32"])
@pytest.mark.parametrize("value", NUMBERS, ids=lambda value: type(value).__name__)
@pytest.mark.filterwarnings("ignore:Casting complex")
def test_numbers_of_arrays(value, to):
    def told(t):
        try:
            return t.tensor([value], dtype=getattr(t, to)).tolist()
        except TypeError as error:
            return str(error)
    assert told(rl) == told(torch)


@pytest.mark.parametrize("t", [rl, torch], ids=["here", "torch"])
@pytest.mark.parametrize("given, message", [
    (lambda t: t.ones(2, 2), "Expected packed scalar Tensor to be of dimension 1. Got 2 instead"),
    (lambda t: t.ones(3), "Expected length of scalars to match input of length 2 but got 3"),
    (lambda t: t.ones(4)[::2], "Expected scalars to be contiguous"),
    (lambda t: t.ones(2, device="meta"), "Expected scalars to be on CPU, got meta"),
    (lambda t: [1.0, 2.0, 3.0], "Tensor list must have same number of elements as scalar list")],
    ids=["matrix", "length", "gaps", "elsewhere", "list"])
def test_numbers_of_lists(t, given, message):
    x = [t.ones(2), t.ones(3)]
    with pytest.raises(RuntimeError, match=f"^{message}"):
        t._foreach_addcmul(x, x, x, given(t))


@pytest.mark.parametrize("location", ["mps", "hpu:1"])
def test_files_of_absent_devices(location):
    """What was saved on a device that is not here is loaded where one says, and nowhere else."""
    with pytest.raises(RuntimeError, match=f"Attempting to deserialize object on a {location[:3].upper()} device"):
        Places(None).device(location)
    file = io.BytesIO()
    rl.save(rl.ones(2), file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="Attempting to deserialize"):
        rl.load(file, map_location=location)
    assert Places("cpu").device(location) == rl.device("cpu")


@pytest.mark.parametrize("t", [rl, torch], ids=["here", "torch"])
def test_outputs_of_backward_hooks_are_not_written(t):
    module = t.nn.ReLU()
    module.register_full_backward_hook(lambda *given: None)
    y = module(t.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="Output 0 of BackwardHookFunction is a view and is being modified inplace.*"
                                           "This view was created inside a custom Function"):
        y += 1


@pytest.mark.parametrize("path", ["qat.modules", "intrinsic", "intrinsic.modules", "intrinsic.qat.modules",
                                  "quantized.modules", "quantized.dynamic.modules"])
def test_names_of_quantized_layers(path):
    import importlib
    here, there = (set(importlib.import_module(f"{root}.ao.nn.{path}").__all__) for root in ("rushlight", "torch"))
    assert there <= here
