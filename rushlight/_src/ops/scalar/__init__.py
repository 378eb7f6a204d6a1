"""Special functions of one element, as Exprs: one definition for kernels of every CPU and for the NumPy reference
implementation.

A file here is imported when a function in it is first used.  Each computes in float64 and rounds once; ``fits.py`` has
their polynomials.
"""
from __future__ import annotations

import importlib

FILES = {"error": ("erf", "erfc", "erfcx", "erfinv", "ndtri", "log_ndtr"), "power": ("pow",),
         "gamma": ("lgamma", "digamma", "zeta"), "incomplete": ("igamma", "igammac", "poisson_quantile"),
         "bessel": ("i0", "i0e", "i1", "i1e", "j0", "j1", "y0", "y1", "k0", "k0e", "k1", "k1e", "spherical_j0"),
         "airy": ("airy_ai",)}
HOME = {name: file for file, names in FILES.items() for name in names}
SPECIAL: dict = {}


def special(name):
    """Register a function as the definition of an operation on floats, given in float64."""

    def enter(function):
        SPECIAL[name] = function
        return function

    return enter


def definition(name):
    """The function from float64 Exprs to the Expr of an operation's value."""
    if name not in SPECIAL:
        importlib.import_module(f".{HOME[name]}", __name__)
    return SPECIAL[name]
