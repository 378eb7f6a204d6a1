"""Tensors as text, by PyTorch's private names."""
from ._src.core.native import Tensor
from ._src.core.printing import Options as PRINT_OPTS
from ._src.core.printing import add_suffixes as _add_suffixes  # noqa: F401 - read by other libraries
from ._src.core.printing import get_printoptions, printoptions, set_printoptions


def _str(self, *, tensor_contents=None) -> str:
    return Tensor.__repr__(self, tensor_contents=tensor_contents)


_str_intern = _str


def _tensor_str(self, indent) -> str:
    """The elements alone."""
    text = repr(self.detach())
    return text[text.index("(") + 1:text.rindex(")")].split(", dtype=")[0]


__all__ = ["PRINT_OPTS", "get_printoptions", "printoptions", "set_printoptions"]
