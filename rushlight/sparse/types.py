"""Types of sparse tensors by dtype (``torch.sparse.FloatTensor``): names of older programs."""
from __future__ import annotations

from .._src.core.dtypes import BY_NAME, type_name
from .tensor import Coo, sparse_coo_tensor

NAMES = ("BFloat16Tensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor",
         "LongTensor", "ShortTensor")


class TypeOfSparseTensors(type):
    """Metaclass: instances are the COO tensors of one dtype."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, Coo) and instance.dtype is cls.dtype

    def __call__(cls, *args):
        """``(indices, values)`` or ``(indices, values, size)``, of the dtype of the values; sizes alone, as numbers or
        as one sequence: a tensor without elements.

        >>> import rushlight as torch
        >>> torch.sparse.FloatTensor(torch.tensor([[0, 1]]), torch.ones(2), (3,)).to_dense()
        tensor([1., 1., 0.])
        """
        if len(args) > 1 and not isinstance(args[0], int):
            return sparse_coo_tensor(*args)
        size = tuple(args[0]) if len(args) == 1 and not isinstance(args[0], int) else args or (0,)
        return sparse_coo_tensor(size, dtype=cls.dtype)


def type_of(name):
    dtype = next(d for d in BY_NAME.values() if f"{type_name(d)}Tensor" == name)
    return TypeOfSparseTensors(name, (), {"dtype": dtype, "__module__": "torch.sparse",
                                          "__doc__": f"Sparse tensors of {dtype}, by coordinates."})


globals().update({name: type_of(name) for name in NAMES})
