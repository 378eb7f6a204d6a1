"""Tensors without data: those of the meta device stand for them."""
from __future__ import annotations

from ..capture.record import Fake as FakeTensor
from ..core import devices
from ..core.later import later
from ..core.native import Tensor
from ..core.pytree import tree_flatten, tree_unflatten
from ..core.tensor import empty
from ..overrides import TorchFunctionMode

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake"]


def is_fake(x) -> bool:
    """Whether a tensor stands for one whose data is not known."""
    return isinstance(x, FakeTensor)


class FakeTensorMode(TorchFunctionMode):
    """A block in which every operator makes tensors without data, on the meta device, whatever device is asked for.

    AssertionError for a tensor with data among the arguments, unless ``allow_non_fake_inputs``: it is taken as one without.

    >>> import rushlight as rl
    >>> with FakeTensorMode() as mode:
    ...     x = rl.rand(2, 3, device="cpu") @ mode.from_tensor(rl.ones(3, 4))
    >>> x.shape, x.is_meta
    (torch.Size([2, 4]), True)
    """

    def __init__(self, *, allow_fallback_kernels=True, allow_non_fake_inputs=False, shape_env=None, static_shapes=None, export=False):
        super().__init__()
        self.shape_env, self.allow_non_fake_inputs = shape_env, allow_non_fake_inputs

    def __enter__(self):
        devices.meta.__enter__()
        return super().__enter__()

    def __exit__(self, *exception):
        super().__exit__(*exception)
        devices.meta.__exit__(*exception)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in LOOKING:
            return func(*args, **(kwargs or {}))
        given, spec = tree_flatten((args, {**(kwargs or {}), **({"device": devices.meta} if (kwargs or {}).get("device") is not None else {})}))
        args, kwargs = tree_unflatten([self.faked(name, value) for value in given], spec)
        return func(*args, **kwargs)

    def faked(self, name, value):
        """An argument without data."""
        if not isinstance(value, Tensor) or value.is_meta:
            return devices.meta if isinstance(value, devices.device) else value
        if not self.allow_non_fake_inputs:
            raise AssertionError(f"Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with 'allow_non_fake_inputs': {name} was given a tensor "
                                 f"with data, of shape {list(value.shape)}. mode.from_tensor(x) makes one without.")
        return self.from_tensor(value)

    def from_tensor(self, tensor, **kwargs):
        """A tensor like another, without data."""
        made = empty(tuple(tensor.shape), tensor.dtype, tensor.stride(), "meta")
        made.requires_grad = tensor.requires_grad and tensor.is_leaf
        return made


LOOKING = frozenset(("__get__", "dim", "size", "stride", "numel", "is_floating_point", "is_complex", "is_contiguous", "storage_offset", "__len__", "__repr__", "__str__", "__hash__", "detach"))


__getattr__ = later(__name__)
