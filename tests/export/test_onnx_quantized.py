"""Programs of bytes that stand for other numbers, as QuantizeLinear and DequantizeLinear."""
import numpy as np
import pytest

import rushlight as torch

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
nn, F = torch.nn, torch.nn.functional
Q = torch.ops.quantized_decomposed


def rounded(x, scale, zero=0, low=-128, high=127, dtype=torch.int8):
    x = Q.quantize_per_tensor(x, scale, zero, low, high, dtype)
    return Q.dequantize_per_tensor(x, scale, zero, low, high, dtype)


class Layers(nn.Module):
    """A convolution and a linear layer, as quantization after export writes them."""

    def __init__(self):
        super().__init__()
        self.scales = nn.Buffer(torch.rand(8) * 0.01 + 0.005)
        self.zeros = nn.Buffer(torch.zeros(8, dtype=torch.int64))
        self.conv = nn.Buffer(torch.randint(-127, 128, (8, 3, 3, 3), dtype=torch.int8))
        self.weight = nn.Buffer(torch.randint(-127, 128, (5, 8), dtype=torch.int8))
        self.bias = nn.Parameter(torch.randn(8))

    def forward(self, x):
        x = rounded(x, 0.03, 120, 0, 255, torch.uint8)
        kernel = Q.dequantize_per_channel(self.conv, self.scales, self.zeros, 0, -127, 127, torch.int8)
        y = rounded(F.conv2d(x, kernel, self.bias).relu(), 0.05, 0, 0, 127, torch.uint8)
        y = rounded(y.mean((2, 3)), 0.02)
        return F.linear(y, Q.dequantize_per_tensor(self.weight, 0.01, 0, -127, 127, torch.int8))


def operators(program) -> list:
    return [node.op_type for node in program.model_proto.graph.node]


def test_layers_are_written_with_bytes():
    torch.manual_seed(0)
    model, x = Layers().eval(), torch.randn(4, 3, 9, 9)
    with torch.no_grad():
        program = torch.onnx.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=9)},))
        onnx.checker.check_model(program.model_proto, full_check=True)
        for given in (x, torch.randn(7, 3, 9, 9)):
            found, = program(given)
            # one step of what is rounded may go the other way
            assert (found - model(given)).abs().max() <= 0.03
            assert (found - model(given)).abs().mean() < 2e-3
    written = operators(program)
    assert written.count("QuantizeLinear") == 3 and written.count("DequantizeLinear") == 5
    assert written.count("Clip") == 1 and "Round" not in written
    held = {t.name: onnx.numpy_helper.to_array(t).dtype for t in program.model_proto.graph.initializer}
    assert held["conv"] == held["weight"] == np.int8


@pytest.mark.parametrize("dtype, low, high", [(torch.int8, -128, 127), (torch.uint8, 0, 255), (torch.int8, -127, 127),
                                              (torch.uint8, 0, 127)])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_bytes_are_those_of_the_program(dtype, low, high, axis):
    class Bytes(nn.Module):
        def forward(self, x, scales, zeros):
            if axis is None:
                return Q.quantize_per_tensor(x, 0.037, 3, low, high, dtype)
            return Q.quantize_per_channel(x, scales, zeros, axis, low, high, dtype)

    torch.manual_seed(0)
    x, scales, zeros = torch.randn(6, 6) * 4, torch.rand(6) * 0.1 + 0.01, torch.randint(0, 9, (6,))
    with torch.no_grad():
        program = torch.onnx.export(Bytes(), (x, scales, zeros))
        found, = program(x, scales, zeros)
        wanted = Bytes()(x, scales, zeros)
    assert found.dtype is wanted.dtype and (found.int() - wanted.int()).abs().max() <= 1
    assert (found != wanted).float().mean() < 0.05 and "QuantizeLinear" in operators(program)


def test_what_is_wider_is_written_by_its_body():
    class Wide(nn.Module):
        def forward(self, x):
            return Q.quantize_per_tensor(x, 0.01, 0, -1000, 1000, torch.int16)

    x = torch.randn(5, 5)
    program = torch.onnx.export(Wide(), (x,))
    found, = program(x)
    assert (found.int() - Wide()(x).int()).abs().max() == 0 and "QuantizeLinear" not in operators(program)
