"""``torch.return_types``: the types of results with names, made when they are first asked for."""
from __future__ import annotations

from .core.results import named

FIELDS = {  # operators whose type may be asked for before they have run
    **dict.fromkeys(("max", "min", "median", "nanmedian", "mode", "sort", "topk", "kthvalue", "cummax", "cummin"), ("values", "indices")),
    "aminmax": ("min", "max"), "qr": ("Q", "R"), "linalg_qr": ("Q", "R"), "svd": ("U", "S", "V"), "linalg_svd": ("U", "S", "Vh"), "linalg_slogdet": ("sign", "logabsdet"),
    "linalg_eig": ("eigenvalues", "eigenvectors"), "linalg_eigh": ("eigenvalues", "eigenvectors"), "frexp": ("mantissa", "exponent"),
    "histogram": ("hist", "bin_edges"), "geqrf": ("a", "tau"), "triangular_solve": ("solution", "cloned_coefficient")}


def __getattr__(name):
    """The type of an operator's result."""
    if name not in FIELDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return type(named(name, **dict.fromkeys(FIELDS[name])))


def __dir__():
    return sorted(FIELDS)
