"""A substitute for the parts of torchvision that model code imports, composed of Rushlight's operators; the real
package is linked against another framework."""
from . import datasets, io, models, ops, transforms, utils

__version__ = "0.28.0+rushlight"
__all__ = ["datasets", "io", "models", "ops", "transforms", "utils"]


def get_image_backend() -> str:
    return "PIL"


def set_image_backend(backend):
    """Raise ValueError for another backend than PIL."""
    if backend != "PIL":
        raise ValueError(f"Invalid backend '{backend}': images are read with PIL")


def disable_beta_transforms_warning():
    """Do nothing: there is no such warning."""
