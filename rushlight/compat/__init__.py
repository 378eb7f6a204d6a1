"""The name ``torch``: after ``install()``, every ``import torch...`` in this process means Rushlight."""


def install():
    """Makes ``import torch`` mean Rushlight from now on; RuntimeError if another torch was imported already."""
    from .._src.compat.finder import install
    install()


__all__ = ["install"]
