"""Programs as ONNX compute in onnxruntime what they compute here: every rule, whole models, dynamic sizes, files."""
import io

import numpy as np
import pytest

import rushlight as torch
from rushlight.onnx.rules import RULES

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
nn, F, Dim = torch.nn, torch.nn.functional, torch.export.Dim


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def flat(value):
    return [t for v in value for t in flat(v)] if isinstance(value, (tuple, list)) else [value]


def agree(module, args, *others, **how):
    """The program, after a comparison on its example arguments and on others."""
    module = (module if isinstance(module, nn.Module) else Call(module)).eval()
    with torch.no_grad():
        program = torch.onnx.export(module, args, **how)
        onnx.checker.check_model(program.model_proto, full_check=True)
        for given in (args, *others):
            found, wanted = program(*given), flat(module(*given))
            assert len(found) == len(wanted)
            for a, b in zip(found, wanted):
                wanted_parts = torch.view_as_real(b) if b.dtype.is_complex else b
                torch.testing.assert_close(a, wanted_parts, rtol=1e-5, atol=1e-5, equal_nan=True)
    return program


torch.manual_seed(1)
X, Y = torch.randn(3, 4), torch.randn(3, 4)
POSITIVE, UNIT = X.abs() + 0.1, X.tanh() * 0.9
WHOLE, OTHER = torch.tensor([[7, -7, 3], [0, 5, -4]]), torch.tensor([[2, 2, -2], [3, -3, 3]])
INDEX = torch.tensor([[2, 0, 1, 1], [0, 0, 2, 1]])
SQUARE = torch.tensor([[0.0, 2.0, 1.0], [1.0, 1.0, -3.0], [4.0, 0.5, 2.0]])  # the first pivot is 0
UNARY = {"neg": X, "abs": X, "sign": X, "reciprocal": POSITIVE, "sqrt": POSITIVE, "rsqrt": POSITIVE, "floor": X,
         "ceil": X, "trunc": 3 * X, "round": 3 * X, "exp": X, "exp2": X,
         "expm1": torch.tensor([1e-6, -1e-6, 0.5, -3.0, 10.0]), "log": POSITIVE, "log2": POSITIVE, "log10": POSITIVE,
         "log1p": torch.tensor([0.0, 1e-6, -1e-6, 0.5, float("inf")]), "sin": X, "cos": X, "tan": X, "asin": UNIT,
         "acos": UNIT, "atan": X, "sinh": X, "cosh": X,
         "tanh": X, "asinh": X, "acosh": POSITIVE + 1, "atanh": UNIT, "erf": X, "erfc": X, "sigmoid": X,
         "logical_not": X > 0, "bitwise_not": WHOLE, "isnan": X / 0 * 0}
BINARY = {"add": (X, Y), "sub": (X, Y), "mul": (X, Y), "div": (X, Y), "pow": (POSITIVE, Y), "maximum": (X, Y),
          "minimum": (X, Y), "atan2": (X, Y), "copysign": (X, Y),
          "hypot": (X, Y), "remainder": (WHOLE, OTHER), "fmod": (WHOLE, OTHER), "floor_divide": (WHOLE, OTHER),
          "eq": (WHOLE, OTHER), "ne": (WHOLE, OTHER), "lt": (X, Y),
          "le": (X, Y), "gt": (X, Y), "ge": (X, Y), "logical_and": (X > 0, Y > 0), "logical_or": (X > 0, Y > 0),
          "logical_xor": (X > 0, Y > 0),
          "bitwise_and": (WHOLE, OTHER), "bitwise_or": (WHOLE, OTHER), "bitwise_xor": (WHOLE, OTHER),
          "bitwise_left_shift": (WHOLE, OTHER.abs()),
          "bitwise_right_shift": (WHOLE, OTHER.abs())}
REST = {
    "remainder of floats": (torch.remainder, (3 * X, Y)), "fmod of floats": (torch.fmod, (3 * X, Y)),
    "floors of quotients": (torch.floor_divide, (3 * X, Y)),
    "angles": (torch.atan2, (torch.tensor([0.0, -0.0, 0.0, 1.0, -1.0]), torch.tensor([-1.0, -1.0, 0.0, 0.0, 0.0]))),
    "where": (lambda x, y: torch.where(x > 0, x, 2.0), (X, Y)),
    "convert": (lambda x: (x.double(), x.to(torch.int32), x.bool(), x.half().float()), (3 * X,)),
    "expand": (lambda x: x[:, None].expand(3, 2, 4) + 0, (X,)), "permute": (lambda x: x.t().contiguous(), (X,)),
    "reshape": (lambda x: x.reshape(2, -1), (X,)),
    "slice": (lambda x: x[1:, ::2] * 2, (X,)), "flip": (lambda x: x.flip(0, 1), (X,)),
    "pad": (lambda x: (F.pad(x, (1, 2, -1, 0), value=3), F.pad(x > 0, (1, 1))), (X,)),
    "spread": (lambda x: torch.ops.prims.pad(x, low=(1, 0), high=(0, 2), inner=(1, 2), value=5.0), (X,)),
    "unfold": (lambda x: x.unfold(1, 2, 1) * 1, (X,)),
    "diagonal": (lambda x: x.diagonal() * 2, (X,)),
    "strided": (lambda x: torch.as_strided(x, (2, 2), (4, 1), 1) * 2, (X,)),
    "cat": (lambda x, y: torch.cat([x, y, x], 1), (X, Y)),
    "sum": (lambda x: (x.sum(1), x.mean(), (x > 0).sum()), (X,)), "prod": (lambda x: x.prod(1), (X,)),
    "amax": (lambda x: (x.amax(0), x.amin((0, 1))), (X,)),
    "any": (lambda x: ((x > 0).any(1), (x > -9).all()), (X,)),
    "argmax": (lambda x, n: (x.argmax(1), n.argmin(0)), (X, WHOLE)), "cumsum": (lambda x: x.cumsum(1), (X,)),
    "take": (lambda x, i: x[i], (X, INDEX)), "gather": (lambda x, i: x.gather(0, i), (X, INDEX)),
    "scatter": (lambda x, i, y: x.scatter_add(0, i, y), (X, INDEX, Y)),
    "put": (lambda x, y: x.index_add(0, torch.tensor([2, 0, 2]), y), (X, Y)),
    "topk": (lambda x: torch.topk(x, 2), (X,)), "sort": (lambda x: torch.sort(x, 1, True), (X,)),
    "full": (lambda x: torch.full((2, 2), 3.0) + x.sum(), (X,)), "iota": (lambda x: x + torch.arange(4), (X,)),
    "matmul": (lambda x, y: x @ y.t(), (X, Y)),
    "conv": (nn.Conv2d(4, 6, 3, 2, 1, 1, 2), (torch.randn(2, 4, 7, 6),)),
    "conv_input": (nn.ConvTranspose2d(4, 6, 3, 2, 1, 1), (torch.randn(2, 4, 5, 6),)),
    "attention": (lambda q, k, v: (F.scaled_dot_product_attention(q, k, v, is_causal=True),
                                   F.scaled_dot_product_attention(q, k, v, k[:, :1] > 0, scale=0.3)),
                  (torch.randn(2, 4, 5, 5), torch.randn(2, 4, 5, 5), torch.randn(2, 4, 5, 3))),
    "shared heads": (lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True),
                     (torch.randn(2, 4, 5, 3), torch.randn(2, 2, 6, 3))),
    "interpolate": (lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bilinear"), (X,)),
    "group norm": (nn.GroupNorm(2, 4), (X,)), "gelu": (F.gelu, (X,)),
    "complex": (lambda x, y: torch.complex(x, y) * (2 - 1j), (X, Y)),
    "half": (lambda z: (z * z.conj() + 1, z.real - z.imag, torch.view_as_real(z), z.abs()), (torch.complex(X, Y),)),
    "fft": (lambda x, z: (torch.fft.fft(x), torch.fft.ifft(z, dim=0), torch.fft.fft2(z), torch.fft.ifftn(z)),
            (X, torch.complex(X, Y))),
    "rfft": (lambda x: (torch.fft.rfft(x), torch.fft.rfft(x, dim=0), torch.fft.rfft2(x)), (X,)),
    "irfft": (lambda z: (torch.fft.irfft(z), torch.fft.irfft(z, n=5), torch.fft.irfft(z, dim=0), torch.fft.hfft(z)),
              (torch.complex(X, Y),)),
    "inverse": (lambda x: (torch.linalg.inv(x), torch.linalg.inv_ex(x[0])), (torch.stack([SQUARE, SQUARE.flip(0)]),)),
    "cond": (lambda x, y: torch.cond(x.sum() > 0, lambda x, y: (x + y, x), lambda x, y: (x - y, y), (x, y)), (X, Y)),
    "nonzero": (lambda x: (torch.nonzero(x > 0), (x > 0).nonzero(as_tuple=True)[1] * 2, x[x < 0]), (X,))}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one(name):
    agree(getattr(torch, name), (UNARY[name],))


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(name):
    agree(getattr(torch, name), BINARY[name])


@pytest.mark.parametrize("name", REST)
def test_other_rules(name):
    agree(*REST[name])


def test_every_rule_is_written_above(monkeypatch):
    from rushlight.onnx.writer import Writer
    used, write = set(), Writer.write
    monkeypatch.setattr(Writer, "write",
                        lambda self, node: (used.add(node.op.name.removeprefix("prims.")), write(self, node))[1])
    for function, args in [*((getattr(torch, n), (x,)) for n, x in UNARY.items()),
                           *((getattr(torch, n), xs) for n, xs in BINARY.items()), *REST.values()]:
        torch.onnx.export(function if isinstance(function, nn.Module) else Call(function), args)
    rest = {name for name in RULES if not name.startswith("quantized_decomposed.")}  # those have a file of their own
    assert rest - used == {"as_stored", "int_matmul", "within"}  # of 16-bit floats, below, and of gradients of views


def test_products_of_int8():
    agree(torch._int_mm,
          (torch.randint(-128, 128, (17, 8), dtype=torch.int8), torch.randint(-128, 128, (8, 8), dtype=torch.int8)))


class Decoder(nn.Module):
    """A small GPT."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places, self.head = nn.Embedding(11, 16), nn.Embedding(32, 16), nn.Linear(16, 11)
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, activation="gelu", batch_first=True, norm_first=True)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        return self.head(self.layer(x, nn.Transformer.generate_square_subsequent_mask(ids.shape[1])))


def test_sizes_that_vary():
    program = agree(Decoder(), (torch.randint(0, 11, (2, 8)),), (torch.randint(0, 11, (3, 12)),),
                    dynamic_shapes=({0: Dim("batch"), 1: Dim("time")},))
    assert [d.dim_param for d in program.model_proto.graph.input[0].type.tensor_type.shape.dim] == ["batch", "time"]


def test_choices_by_sizes():
    """One file for both branches of a condition on sizes, and comparisons as results."""
    def chosen(x):
        found = torch.cond(x.shape[0] * 2 > x.shape[1], lambda x: x.sin() + x.shape[0], lambda x: x - 1, (x,))
        return torch.cond(x.shape[0] == 5, lambda x: x * 2, lambda x: x + x.shape[1], (found,))

    for opset in (17, 20):
        agree(chosen, (torch.randn(3, 4),), *((torch.randn(n, m),) for n, m in ((2, 4), (5, 4), (5, 12), (9, 2))),
              dynamic_shapes=(({0: Dim("n"), 1: Dim("m")},),), opset_version=opset)


def test_counts_that_data_decide():
    def picked(x):
        rows = torch.nonzero(x.sum(1) > 0)
        return rows, x[rows[:, 0]] * 2, rows.shape[0] + x[x > 0]

    agree(picked, (X,), (-X,), (torch.ones(3, 4),), (torch.zeros(3, 4),), (torch.eye(4)[:3],))


def test_inverses_of_sizes_that_vary():
    program = agree(torch.linalg.inv, (torch.randn(2, 3, 3) + 3 * torch.eye(3),),
                    *((torch.randn(b, n, n) + n * torch.eye(n),) for b, n in ((3, 2), (2, 7))),
                    dynamic_shapes=(({0: Dim("b"), 1: (n := Dim("n")), 2: n},),), opset_version=17)
    singular, = program(torch.ones(2, 4, 4))
    assert not singular.isfinite().all()


def test_transforms_by_opset_and_size():
    """Sizes even, odd and composite, real and complex, by an operator whose axis is an attribute or an input."""
    for opset, n in ((17, 7), (20, 6), (20, 12)):
        x = torch.randn(2, n, 3)
        agree(lambda x, n=n: (torch.fft.rfft(x, dim=1), torch.fft.irfft(torch.fft.rfft(x, dim=1), n=n, dim=1),
                              torch.fft.fft(x, norm="ortho").abs()), (x,), opset_version=opset)
    agree(lambda x: torch.fft.ifft(torch.fft.fft(x), norm="forward").real, (torch.randn(3, 4),), (torch.randn(5, 4),),
          dynamic_shapes=(({0: Dim("n")},),))


def test_ints_that_vary():
    program = agree(lambda x, n: (x * n + n, x.repeat(n, 1), x[:, 1:] - n), (X, 3), (X, 2), (X, 7),
                    dynamic_shapes=((None, Dim.DYNAMIC),))
    assert [given.name for given in program.model_proto.graph.input] == ["args_0", "args_1"]


def test_axes_and_names_as_they_once_were():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    program = agree(model, (torch.randn(2, 3, 32, 32),), (torch.randn(5, 3, 32, 32),), input_names=["image"],
                    output_names=["scores"], dynamic_axes={"image": {0: "n"}, "scores": [0]})
    graph = program.model_proto.graph
    assert [graph.input[0].name, graph.output[0].name] == ["image", "scores"]
    assert {t.name for t in graph.initializer} >= {"0.weight", "1.running_mean", "6.bias"}


def test_recurrent_networks():
    agree(nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True), (torch.randn(2, 3, 4),))
    agree(nn.GRU(4, 5), (torch.randn(3, 2, 4),))


@pytest.mark.parametrize("beside", [False, True])
def test_files(tmp_path, beside):
    model, x = nn.Linear(40, 50), torch.randn(3, 40)
    path = tmp_path / "model.onnx"
    torch.onnx.export(model, (x,), path, external_data=beside, verify=True)
    assert (tmp_path / "model.onnx.data").exists() == beside
    import onnxruntime
    session = onnxruntime.InferenceSession(path)
    found, = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    assert np.allclose(found, model(x).detach().numpy(), atol=1e-5)


def test_bfloat16_weights_keep_their_bits():
    model = nn.Linear(4, 3).bfloat16()
    program = torch.onnx.export(model, (X.bfloat16(),))
    weight, = (t for t in program.model_proto.graph.initializer if t.name == "weight")
    assert np.frombuffer(weight.raw_data,
                         np.uint16).tolist() == model.weight.detach().view(torch.int16).numpy().view(
                             np.uint16).ravel().tolist()


def test_running_statistics_are_outputs():
    model = nn.BatchNorm1d(4)
    program = torch.onnx.export(model, (X,), verify=True)
    assert {"running_mean", "running_var"} <= set(program.written) and not model.running_mean.any()
    for _ in range(2):
        found, = program(X)
        assert np.allclose(found, model(X).detach().numpy(), atol=1e-5)
    assert np.allclose(program.state["running_mean"], model.running_mean.numpy(), atol=1e-6)


def test_refusals():
    with pytest.raises(torch.onnx.OnnxExporterError, match="linalg|svd"):
        torch.onnx.export(Call(torch.linalg.svdvals), (X,))
    with pytest.raises(RuntimeError, match="random"):
        torch.onnx.export(nn.Dropout(), (X,))
    with pytest.raises(ValueError, match="least"):
        torch.onnx.export(nn.Linear(4, 4), (X,), opset_version=9)
    with pytest.raises(TypeError, match="unexpected"):
        torch.onnx.export(nn.Linear(4, 4), (X,), opset=18)
    with pytest.warns(UserWarning, match="no effect"):
        torch.onnx.export(nn.Linear(4, 4), (X,), report=True)


@pytest.mark.parametrize("opset", [17, 18, 20])
def test_opsets(opset):
    """Reductions take axes as each opset has it; what an opset lacks is an error, not a file that nobody reads."""
    def reduced(x):
        return x.sum(0), x.amax(1), x.amin((0, 1)), x.prod(0, keepdim=True), (x > 0).any(1), x.softmax(-1), x.std()

    program = agree(reduced, (X,), opset_version=opset)
    assert program.model_proto.opset_import[0].version == opset
    agree(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (X[None],), opset_version=opset)
    if opset < 18:
        with pytest.raises(torch.onnx.OnnxExporterError, match="opset 17 has no operator BitwiseAnd"):
            torch.onnx.export(Call(torch.bitwise_and), (WHOLE, OTHER), opset_version=opset)
        with pytest.raises(torch.onnx.OnnxExporterError, match="does not scatter by max"):
            torch.onnx.export(Call(lambda x, y: x.scatter_reduce(0, INDEX, y, "amax")), (X, Y), opset_version=opset)


def test_written_into_a_buffer():
    file = io.BytesIO()
    torch.onnx.export(nn.Linear(4, 2), (X,), file, opset_version=17)
    session = onnxruntime.InferenceSession(file.getvalue())
    assert session.run(None, {session.get_inputs()[0].name: X.numpy()})[0].shape == (3, 2)
