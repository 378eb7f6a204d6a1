"""``torch.return_types``: the types of results with names, made when they are first asked for."""
from __future__ import annotations

from ._src.core.later import later
from ._src.core.results import named

FIELDS = {  # operators whose return type may be needed before they have run
    **dict.fromkeys(("max", "min", "median", "nanmedian", "mode", "sort", "topk", "kthvalue", "cummax", "cummin"),
                    ("values", "indices")),
    "aminmax": ("min", "max"), **dict.fromkeys(("qr", "linalg_qr"), ("Q", "R")), "svd": ("U", "S", "V"),
    "linalg_svd": ("U", "S", "Vh"),
    **dict.fromkeys(("slogdet", "linalg_slogdet"), ("sign", "logabsdet")),
    **dict.fromkeys(("linalg_eig", "linalg_eigh"), ("eigenvalues", "eigenvectors")),
    **dict.fromkeys(("lu_unpack", "linalg_lu"), ("P", "L", "U")), "linalg_lu_factor": ("LU", "pivots"),
    "linalg_lu_factor_ex": ("LU", "pivots", "info"),
    "linalg_ldl_factor": ("LD", "pivots"), "linalg_ldl_factor_ex": ("LD", "pivots", "info"),
    "linalg_cholesky_ex": ("L", "info"), "linalg_inv_ex": ("inverse", "info"),
    "linalg_solve_ex": ("result", "info"), "linalg_lstsq": ("solution", "residuals", "rank", "singular_values"),
    "frexp": ("mantissa", "exponent"),
    **dict.fromkeys(("histogram", "histogramdd"), ("hist", "bin_edges")), "geqrf": ("a", "tau"),
    "triangular_solve": ("solution", "cloned_coefficient")}


def kind(name: str):
    """The type of an operator's result; that of its form with ``out=`` is another one.  KeyError for one without
    names."""
    return type(named(name, **dict.fromkeys(FIELDS[name.removesuffix("_out")])))


def pytree_register_structseq(cls):
    """Nothing is left to do: pytrees take named tuples apart as they are."""


beyond = later(__name__)


def __getattr__(name):
    if name == "all_return_types":
        return [kind(n + ending) for n in FIELDS for ending in ("", "_out")]
    try:
        return kind(name)
    except KeyError:
        return beyond(name)


def __dir__():
    return sorted([*FIELDS, *(f"{name}_out" for name in FIELDS), "all_return_types", "pytree_register_structseq"])
