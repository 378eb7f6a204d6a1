"""The transforms under the names of their second version: the same ones, with dtypes converted by ``ToDtype`` and
images made by ``ToImage``."""
from .. import *  # noqa: F401,F403
from .. import __all__ as _names
from ..modules import ToTensor
from .functional import to_dtype, to_image  # the module itself becomes ``functional`` here

__all__ = [*_names, "ToDtype", "ToImage"]


class ToImage(ToTensor):
    """An image (PIL, array or tensor) as a tensor [c, h, w] of its own dtype."""

    def __call__(self, pic):
        return to_image(pic)


class ToDtype:
    """Converts a tensor; with ``scale`` the range of values too.

    >>> import rushlight as torch
    >>> ToDtype(torch.float32, scale=True)(torch.tensor([255], dtype=torch.uint8))
    tensor([1.])
    """

    def __init__(self, dtype, scale=False):
        self.dtype, self.scale = dtype, scale

    def __call__(self, image):
        return to_dtype(image, self.dtype, self.scale)
