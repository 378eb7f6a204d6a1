"""assert_close."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import rushlight as torch

TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
              "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7)}
BY_ROWS, BY_COLUMNS = (torch.sparse_csr, torch.sparse_bsr), (torch.sparse_csc, torch.sparse_bsc)
INDICES = {"crow_indices": BY_ROWS, "ccol_indices": BY_COLUMNS, "col_indices": BY_ROWS, "row_indices": BY_COLUMNS}


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True,
                 check_dtype=True, check_layout=True,
                 check_stride=False, msg=None):
    """AssertionError unless ``|actual - expected| <= atol + rtol * |expected|`` everywhere, in tensors, numbers,
    sequences and mappings of them.  ``allow_subclasses=False``: tensors are of one class.

    Tolerances not given (both or neither) follow from the dtypes.  TypeError for what cannot be compared.

    >>> import rushlight as torch
    >>> torch.testing.assert_close(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
    """
    if (rtol is None) != (atol is None):
        raise ValueError(
            "Both 'rtol' and 'atol' must be either specified or unspecified, but got no "
            f"{'rtol' if rtol is None else 'atol'}.")
    options = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan, "device": check_device, "dtype": check_dtype,
               "stride": check_stride, "layout": check_layout, "subclasses": allow_subclasses}
    found = difference(actual, expected, options, "")
    if found:
        raise AssertionError(msg(found) if callable(msg) else msg or found)


def difference(actual, expected, options, where):
    """Return the first difference, or None."""
    place = f"\n\nThe failure occurred for item {where}" if where else ""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            return ("The keys of the mappings do not match:\nMissing keys in the actual mapping: "
                    f"{sorted(set(expected) - set(actual))}\nAdditional keys in the actual mapping: "
                    f"{sorted(set(actual) - set(expected))}{place}")
        return first(difference(actual[k], expected[k], options, f"{where}[{k!r}]") for k in actual)
    if is_sequence(actual) and is_sequence(expected):
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch: {len(actual)} != {len(expected)}{place}"
        return first(difference(a, e, options, f"{where}[{k}]") for k, (a, e) in enumerate(zip(actual, expected)))
    if actual is None and expected is None:
        return None
    number = not isinstance(actual, torch.Tensor) and not isinstance(expected, torch.Tensor)
    if not number and (isinstance(actual, torch.Tensor) != isinstance(expected, torch.Tensor)
                       or not options["subclasses"] and type(actual) is not type(expected)):
        raise TypeError(
            f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.{place}")
    if number and not all(isinstance(v, (int, float, complex, bool)) for v in (actual, expected)):
        raise TypeError(
            f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.{place}")
    a, e = (torch.tensor(actual, dtype=wide(actual)),
            torch.tensor(expected, dtype=wide(expected))) if number else (actual.detach(), expected.detach())
    return tensors(a, e, options, place, "Scalars" if number else "Tensor-likes")


def wide(number):
    return torch.bool if isinstance(number, bool) else torch.int64 if isinstance(
        number, int) else torch.complex128 if isinstance(number, complex) else torch.float64


def is_sequence(value) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, torch.Tensor))


def first(problems):
    return next(filter(None, problems), None)


def sparse_tensors(a, e, options, place):
    """Return the first difference between tensors of one sparse layout, or None."""
    is_coo = a.layout == torch.sparse_coo
    if is_coo and a.is_coalesced() != e.is_coalesced():
        a, e = a.coalesce(), e.coalesce()
    layout = f"Sparse {'COO' if is_coo else a.layout.name.rpartition('_')[2].upper()}"
    counts = (a.sparse_dim(), e.sparse_dim()), (a._nnz(), e._nnz())
    for what, (own, wanted) in zip(("sparse dimensions", "specified values"), counts):
        if own != wanted:
            return f"The number of {what} in {layout[0].lower()}{layout[1:]} tensors does not match: {own} != {wanted}"
    names = (["_indices"] if is_coo else [n for n in INDICES if a.layout in INDICES[n]]) + ["_values" if is_coo else
                                                                                           "values"]
    exactly = {**options, "rtol": 0.0, "atol": 0.0}
    return first(tensors(getattr(a, name)(), getattr(e, name)(), options if name.endswith("values") else exactly, place,
                         f"{layout} {name.lstrip('_')}") for name in names)


def tensors(a, e, options, place, kind):
    """Return the difference of a pair of tensors, or None."""
    if a.shape != e.shape:
        return f"The values for attribute 'shape' do not match: {a.shape} != {e.shape}.{place}"
    if kind != "Scalars":
        for name in ("dtype", "device"):
            if options[name] and getattr(a, name) != getattr(e, name):
                return (f"The values for attribute '{name}' do not match: {getattr(a, name)} != "
                        f"{getattr(e, name)}.{place}")
        if options["layout"] and a.layout != e.layout:
            return f"The values for attribute 'layout' do not match: {a.layout} != {e.layout}.{place}"
        if a.layout != e.layout:
            a, e = (t.to_dense() for t in (a, e))
        if a.layout not in (torch.strided, torch.jagged):
            return sparse_tensors(a, e, options, place)
        if options["stride"] and a.stride() != e.stride():
            return f"The values for attribute 'stride()' do not match: {a.stride()} != {e.stride()}.{place}"
    rtol, atol = options["rtol"], options["atol"]
    if rtol is None:
        rtol, atol = (max(t) for t in zip(*(TOLERANCES.get(d.dtype.name, (0.0, 0.0)) for d in (a, e))))
    common = torch.promote_types(a.dtype, e.dtype)
    common = torch.float64 if common.is_floating_point else common
    a, e = a.to(common), e.to(common)
    close = torch.isclose(a, e, rtol=rtol, atol=atol, equal_nan=options["equal_nan"])
    if bool(close.all()):
        return None
    exact = rtol == atol == 0
    if kind == "Scalars":
        return (f"Scalars are not {'equal' if exact else 'close'}!\n\nExpected {e.item()} but got "
                f"{a.item()}.\nAbsolute difference: {abs(a.item() - e.item())} (up to {atol} allowed)\nRelative "
                f"difference: {abs((a.item() - e.item()) / e.item()) if e.item() else float('inf')} (up to {rtol} "
                f"allowed){place}")
    wrong = int((~close).sum())
    gap = (a.to(torch.float64) - e.to(torch.float64)).abs() if not common.is_complex else (a - e).abs()
    gap = torch.where(close, 0.0, gap)
    at = tuple(int(k) for k in torch.unravel_index(gap.argmax(), gap.shape)) if gap.dim() else ()
    relative = torch.where(close, 0.0, gap / (e.abs().to(torch.float64) if not common.is_complex else e.abs()))
    far = tuple(int(k) for k in torch.unravel_index(relative.argmax(), gap.shape)) if gap.dim() else ()
    allowed = "" if exact else f" (up to {atol} allowed)", "" if exact else f" (up to {rtol} allowed)"
    return (f"{kind} are not {'equal' if exact else 'close'}!\n\nMismatched elements: {wrong} / {a.numel()} "
            f"({100 * wrong / a.numel():.1f}%)\n"
            f"Greatest absolute difference: {gap.max().item()} at index {at}{allowed[0]}\nGreatest relative "
            f"difference: {relative.max().item()} at index {far}{allowed[1]}{place}")
