"""The name ``torch``: after ``install()``, every ``import torch...`` in this process means Rushlight."""


def install():
    """Make ``import torch`` import Rushlight; RuntimeError if another torch was imported already."""
    from .._src.compat.finder import install
    install()


__all__ = ["install"]
