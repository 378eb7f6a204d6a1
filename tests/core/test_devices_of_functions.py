"""Every public function that takes a device: fake tensors on "meta", PyTorch's error if there is no such device."""
import inspect
import types

import pytest

import rushlight as rl
import rushlight.signal.windows

torch = pytest.importorskip("torch")
T = "tensor"
CALLS = {  # arguments of functions; T: a tensor
    **dict.fromkeys(("arange", "randperm", "bartlett_window", "blackman_window", "hamming_window", "hann_window",
                     "kaiser_window", "eye", "fftfreq", "rfftfreq"), (4,)),
    **dict.fromkeys(("as_tensor", "tensor", "as_nested_tensor", "nested_tensor"), ([1.0, 2.0],)), "asarray": ([1.0],),
    "scalar_tensor": (1.5,),
    **dict.fromkeys(("empty", "ones", "zeros", "rand", "randn"), (2, 3)),
    **dict.fromkeys(("empty_like", "ones_like", "zeros_like", "rand_like", "randn_like"), (T,)),
    "full_like": (T, 2.0), "randint_like": (T, 3), "empty_permuted": ((2, 3), (1, 0)),
    "empty_strided": ((2, 3), (1, 2)), "full": ((2, 3), 1.5), "linspace": (0, 1, 5), "logspace": (0, 1, 5),
    "normal": (0.0, 1.0, (2,)), "randint": (0, 3, (2,)), "range": (0, 3), "tril_indices": (3, 3),
    "triu_indices": (3, 3), "sparse_coo_tensor": ([[0, 1]], [1.0, 2.0], (2,)),
    "new_empty": (T, (2,)), "new_empty_strided": (T, (2,), (1,)), "new_full": (T, (2,), 1.0), "new_ones": (T, (2,)),
    "new_zeros": (T, (2,)), "new_tensor": (T, [1.0]), "to": (T,), "from_dlpack": (T,),
    "new": (T, [1.0, 2.0]),
    **dict.fromkeys(("bartlett", "blackman", "cosine", "exponential", "gaussian", "hamming", "hann", "kaiser",
                     "nuttall", "general_hamming"), (4,)), "general_cosine": (4,),
    "generate_square_subsequent_mask": (3,), "from_file": (__file__, False, 4),
}
NAMED = {"gaussian": {"std": 1.0}, "general_cosine": {"a": [0.5, 0.5]}, "exponential": {"tau": 1.0}}


class Masks:
    """What a module class has that makes tensors."""

    def __init__(self, package):
        self.__name__, self.generate_square_subsequent_mask = ("Transformer",
                                                               package.nn.Transformer.generate_square_subsequent_mask)


ROOMS = [(rl, torch), (rl.Tensor, torch.Tensor), (rl.fft, torch.fft), (rl.signal.windows, torch.signal.windows),
         (Masks(rl), Masks(torch))]
# which make no tensor, or one like a quantized tensor that they are given
APART = {"empty_quantized", "set_default_device", "cuda", "xpu", "mtia", "ipu", "is_pinned", "pin_memory", "Generator"}


def functions():
    for ours, theirs in ROOMS:
        for name in sorted(dir(ours)):
            value = inspect.getattr_static(ours, name, None)
            found = getattr(ours, name, None)
            if name.startswith("_") or isinstance(found, types.ModuleType) or isinstance(
                    value, property) or not callable(found) or isinstance(found, type) or not hasattr(theirs, name):
                continue
            try:
                takes = "device" in inspect.signature(found).parameters
            except (ValueError, TypeError):
                continue
            if takes and name not in APART:
                yield pytest.param(getattr(ours, name), getattr(theirs, name), name,
                                   id=f"{getattr(ours, '__name__', ours)}.{name}")


@pytest.mark.parametrize("ours, theirs, name", functions())
def test_devices(ours, theirs, name):
    assert name in CALLS, "a function that takes a device is not called here"
    for where in ("cpu", "meta", "cuda", "cuda:1", "nowhere"):
        seen = []
        for package, function in ((torch, theirs), (rl, ours)):
            arguments = [package.ones(2, 3) if a is T else a for a in CALLS[name]]
            try:
                made = function(*arguments, device=where, **NAMED.get(name, {}))
            except (RuntimeError, AssertionError, BufferError):
                seen.append("refused")
                continue
            seen.append((str(made.device), list(made.shape), str(made.dtype)))
        assert seen[0] == seen[1], where


def module_classes():
    for name in sorted(dir(rl.nn)):
        found = getattr(rl.nn, name)
        if isinstance(found, type) and issubclass(found, rl.nn.Module) and "device" in inspect.signature(
                found).parameters and hasattr(torch.nn, name):
            yield name


WIDTHS = {"TransformerEncoderLayer": (8, 2), "TransformerDecoderLayer": (8, 2), "Transformer": (8, 2, 1, 1, 8),
          "MultiheadAttention": (8, 2), "LayerNorm": (4,), "RMSNorm": (4,), "PReLU": (),
          "GroupNorm": (2, 4), "AdaptiveLogSoftmaxWithLoss": (4, 6, [2]), "Bilinear": (2, 3, 4),
          "RNNBase": ("GRU", 3, 4), "RNNCellBase": (3, 4, True, 3), "LinearCrossEntropyLoss": (3, 4)}


@pytest.mark.parametrize("name", module_classes())
def test_modules(name):
    required = [p for p in inspect.signature(getattr(rl.nn, name)).parameters.values() if p.default is p.empty
                and p.kind is p.POSITIONAL_OR_KEYWORD]
    arguments = WIDTHS.get(name, (3,) * len(required))
    for where in ("meta", "cuda"):
        seen = []
        for package in (torch, rl):
            try:
                made = getattr(package.nn, name)(*arguments, device=where)
                seen.append([str(v.device) for v in made.state_dict().values()
                             if not type(v).__name__.startswith("Uninitialized")])
            except (RuntimeError, AssertionError):
                seen.append("refused")
        assert seen[0] == seen[1]


@pytest.mark.parametrize("where", ["cpu", "cuda", "meta", "nowhere"])
def test_generators(where):
    seen = []
    for package in (torch, rl):
        try:
            seen.append(str(package.Generator(where).device))
        except RuntimeError:
            seen.append("refused")
    assert seen[0] == seen[1]
