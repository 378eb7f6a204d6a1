"""Compressed indices keep their dtype, and messages name layouts, beside PyTorch."""
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
LAYOUTS = ("csr", "csc", "bsr", "bsc")


def indices_of(x):
    names = ("crow_indices", "col_indices") if x.layout in (torch.sparse_csr, torch.sparse_bsr, rushlight.sparse_csr,
                                                            rushlight.sparse_bsr) else ("ccol_indices", "row_indices")
    return [getattr(x, name)() for name in names]


def make(t, layout, index):
    """A matrix in a layout, with indices of a dtype."""
    layout = getattr(t, f"sparse_{layout}")
    dense = t.tensor([[1.0, 0, 2, 0], [0, 3, 0, 0]])
    x = dense.to_sparse(layout=layout, blocksize=(1, 2) if "bs" in str(layout) else None)
    starts, across = (part.to(getattr(t, index)) for part in indices_of(x))
    return t.sparse_compressed_tensor(starts, across, x.values(), x.shape, layout=layout)


def convert(layout):
    return lambda t, x: x.to_sparse(layout=getattr(t, layout), blocksize=(1, 2) if "_bs" in layout else None)


CALLS = {
    **{f"to {layout}": convert(f"sparse_{layout}") for layout in (*LAYOUTS, "coo")}, "to strided": convert("strided"),
    "itself": lambda t, x: x, "neg": lambda t, x: -x, "times": lambda t, x: x * 2, "clone": lambda t, x: x.clone(),
    "zeros_like": lambda t, x: t.zeros_like(x), "empty_like": lambda t, x: t.empty_like(x),
    "zeros_like of another layout": lambda t, x: t.zeros_like(x, layout=OTHER[str(x.layout)](t)),
    "empty_like of another layout": lambda t, x: t.empty_like(x, layout=OTHER[str(x.layout)](t)),
    "randn_like": lambda t, x: t.randn_like(x), "plus itself": lambda t, x: x + x,
    "transposed": lambda t, x: x.transpose(0, 1), "sums of rows": lambda t, x: x.sum(1, keepdim=True),
    "double": lambda t, x: x.double(),
}
OTHER = {"torch.sparse_csr": lambda t: t.sparse_csc, "torch.sparse_csc": lambda t: t.sparse_csr,
         "torch.sparse_bsr": lambda t: t.sparse_bsc, "torch.sparse_bsc": lambda t: t.sparse_bsr}


def describe(call, t, x):
    """(layout, dtypes of indices, sizes of values) of the result, or the error."""
    try:
        found = call(t, x)
    except (RuntimeError, NotImplementedError) as error:
        return error
    if found.layout is t.strided:
        return "strided"
    if found.layout is t.sparse_coo:
        return "coo", str(found._indices().dtype), tuple(found._values().shape)
    return str(found.layout), [str(part.dtype) for part in indices_of(found)], tuple(found.values().shape)


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_have_the_index_dtype_of_torch(layout, index):
    wrong = []
    for name, call in CALLS.items():
        ours, theirs = (describe(call, t, make(t, layout, index)) for t in (rushlight, torch))
        if not isinstance(theirs, Exception) and ours != theirs:
            wrong.append(f"{name}: {ours} here, {theirs} in PyTorch")
    assert not wrong, "\n".join(wrong)


ACCESSORS = ("crow_indices", "col_indices", "ccol_indices", "row_indices", "indices", "values", "coalesce",
             "is_coalesced")


@pytest.mark.parametrize("layout", ["strided", "coo", *LAYOUTS])
def test_accessors_name_the_layout_that_was_given(layout):
    found = {}
    for t in (rushlight, torch):
        x = (make(t, layout, "int64") if layout in LAYOUTS else t.eye(2).to_sparse().coalesce() if layout == "coo"
             else t.eye(2))
        for name in ACCESSORS:
            try:
                getattr(t.Tensor, name)(x)
                found.setdefault(name, []).append("")
            except RuntimeError as error:
                found.setdefault(name, []).append(str(error).split("\n")[0])
    for ours, theirs in found.values():
        assert bool(ours) is bool(theirs) and ours.startswith(theirs.rstrip(".")), (ours, theirs)


def test_conversions_of_other_sparse_dimensions_name_both_layouts():
    for t in (rushlight, torch):
        for layout in LAYOUTS:
            blocks = (1, 1) if "bs" in layout else None
            named = f"conversion from Sparse to Sparse{layout.capitalize()} for input tensors with sparse_dim"
            with pytest.raises(RuntimeError, match=named):
                t.ones(2, 2, 2).to_sparse().to_sparse(layout=getattr(t, f"sparse_{layout}"), blocksize=blocks)
