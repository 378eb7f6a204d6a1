"""What libraries of quantization ask of the framework: classes of tensors in files, overrides, schemas, stand-ins."""
import inspect
import io
import typing

import pytest

import rushlight as torch
from rushlight.utils import _pytree as pytree

pytestmark = pytest.mark.processor


class Scaled(torch.Tensor):
    """Integers times a scale."""

    def __new__(cls, whole, scale):
        return torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=scale.dtype)

    def __init__(self, whole, scale):
        self.whole, self.scale, self.kind = whole, scale, torch.int4

    def __tensor_flatten__(self):
        return ["whole", "scale"], []

    @classmethod
    def __tensor_unflatten__(cls, parts, attributes, size, stride):
        return cls(parts["whole"], parts["scale"])

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch._has_compatible_shallow_copy_type:
            return "asked"
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return cls(args[0].whole, args[0].scale)
        args = pytree.tree_map(lambda a: a.whole * a.scale if isinstance(a, cls) else a, args)
        return func(*args, **(kwargs or {}))


def made():
    return Scaled(torch.tensor([[1, 2], [3, 4]], dtype=torch.int8), torch.tensor(0.5))


def test_members_that_are_the_same_for_all_are_answered():
    assert made().layout is torch.strided


def test_files_hold_classes_and_the_dtypes_they_name():
    file = io.BytesIO()
    torch.save({"w": made()}, file)
    file.seek(0)
    with torch.serialization.safe_globals([Scaled]):
        found = torch.load(file, weights_only=True)["w"]
    assert type(found) is Scaled and found.kind is torch.int4 and (found + 0).tolist() == [[0.5, 1.0], [1.5, 2.0]]


def test_whether_data_may_change_is_asked_of_the_class():
    assert torch._has_compatible_shallow_copy_type(made(), torch.zeros(1)) == "asked"
    assert torch._has_compatible_shallow_copy_type(torch.ones(2), torch.zeros(1)) is True


def test_numbers_that_may_be_missing_have_a_schema():
    def cut(x: torch.Tensor, low: typing.Optional[typing.Union[int, float, bool]] = None) -> torch.Tensor:
        return x
    schema = torch._library.infer_schema.infer_schema(cut, mutates_args=())
    assert schema == "(Tensor x, Scalar? low=None) -> Tensor"


def test_compiled_programs_take_the_simpler_function():
    calls = []

    @torch.library.custom_op("test_quantization::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return torch.from_numpy(x.numpy() * 2)

    @torch._inductor.decomposition.register_decomposition([torch.ops.test_quantization.twice])
    def simpler(x):
        return x + x

    x = torch.tensor([1.5])
    assert torch.compile(lambda x: twice(x) + 1)(x).item() == 4.0 and not calls
    assert twice(x).item() == 3.0 and calls


@pytest.mark.parametrize("name", ["c10d.scatter_", "_c10d_functional._wrap_tensor_autograd",
                                  "c10d_functional.all_reduce"])
def test_operators_that_are_names_refuse(name):
    space, _, last = name.partition(".")
    operator = getattr(getattr(torch.ops, space), last)
    with pytest.raises(NotImplementedError, match="only as a name"):
        operator.default()


def test_what_the_processor_has_is_told():
    told = [f for n, f in inspect.getmembers(torch.cpu, inspect.isfunction) if n.endswith("_supported")]
    assert len(told) == 6 and all(isinstance(f(), bool) for f in told)
    assert torch._C._cpu._is_amx_tile_supported() is torch.cpu._is_amx_tile_supported()
