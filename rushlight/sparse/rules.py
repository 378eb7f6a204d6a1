"""What operators do with sparse tensors.

An operator whose program is elementwise, and which takes 0 to 0, acts on the elements that are kept: that covers most.
The others have a rule here; what has none raises, and says how to go on.
"""
from __future__ import annotations

from .._src.core.composed import member, rulebook
from .._src.core.convert import sparse_csc, sparse_csr, strided
from .._src.core.errors import LeafWrittenError, UnsupportedLayoutError
from .._src.core.interpret import is_recording
from .._src.core.native import Op, Tensor
from .._src.core.op import OPS
from .._src.core.overriding import DisableTorchFunctionSubclass
from .._src.core.targets import check_cast, check_shape
from .._src.core.tensor import wrapped
from .._src.ops.shape import sizes_of
from .._src.transforms.elementwise import is_elementwise
from .tensor import Coo, Csr, Sparse, made, masked, to_sparse, vacant

RULES, rule = rulebook()
WITHOUT_ELEMENTS = frozenset((  # members of tensors that ask for sizes and types only, or call ``to``
    "shape", "dtype", "device", "ndim", "dim", "size", "numel", "element_size", "is_floating_point", "is_complex",
    "float", "double", "half", "bfloat16", "long", "int",
    "type_as", "cpu", "__len__", "bool", "byte", "char", "short", "cfloat", "cdouble"))
WITH_OPERATORS = frozenset(("_transposed", "_adjoint", "mT", "mH"))  # what other operators make up, which have rules


TURNED = {sparse_csr: sparse_csc, sparse_csc: sparse_csr}  # layouts of matrices whose dimensions are exchanged


def answer(func, args, kwargs):
    """The result of a call with sparse arguments."""
    found = RULES.get(func)
    if found is not None:
        return found(*args, **kwargs) if kwargs.get("out") is None else given_out(func, args, dict(kwargs))
    if isinstance(func, Op):
        if kwargs.get("out") is not None:
            return given_out(func, args, dict(kwargs))
        if func.traits.get("into") == 0:
            return written(func, args, kwargs)
    name = func.name if isinstance(func, Op) else member(func)
    if name in WITHOUT_ELEMENTS:
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    if name in WITH_OPERATORS:
        return func(*args)
    alone = isinstance(args[0], Sparse) and not any(isinstance(a, Tensor) for a in (*args[1:], *kwargs.values()))
    if isinstance(func, Op) and alone and keeps_zeros(func, args, kwargs):
        own = args[0].coalesce() if isinstance(args[0], Coo) else args[0]
        return own.with_elements(func(own.elements, *args[1:], **kwargs))
    layouts = " and ".join(sorted({str(a.layout) for a in args if isinstance(a, Sparse)}))
    raise UnsupportedLayoutError(f"{name}: not implemented for the layout {layouts or 'torch.sparse_coo'}",
                                 "dense tensors", "convert with to_dense() first")


def written(func, args, kwargs):
    """An operator that writes into its first argument: that takes what the operator without writing gives."""
    target, plain = args[0], OPS.get(func.name[:-1])
    if not isinstance(target, Sparse):
        found = answer(plain, args, kwargs) if plain is not None else target
        return target.copy_(unmixed(func, target, found))
    if target.requires_grad and target.is_leaf and is_recording():
        raise LeafWrittenError(
            f"a leaf Variable that requires grad is being used in an in-place operation ({func.name})",
            "a result, or a leaf without gradient", "change a clone()")
    if plain is None and not keeps_zeros(func, args, kwargs):
        raise UnsupportedLayoutError(f"{func.name}: not implemented for the layout {target.layout}", "dense tensors",
                                     "convert with to_dense() first")
    found = answer(plain, args, kwargs) if plain is not None else target.with_elements(func(target.elements.clone(),
                                                                                            *args[1:], **kwargs))
    check_shape(found._meta, target._meta)
    return received(target, unmixed(func, target, found))


def unmixed(func, target, found):
    """A result that is sparse if the tensor is into which it goes, and only then."""
    if found is target or isinstance(found, Sparse) is not isinstance(target, Sparse):
        raise UnsupportedLayoutError(
            f"{func.name}: the result is not of the layout of what is written, {target.layout}",
            "tensors of one layout", "convert with to_dense() first")
    return found


def given_out(func, args, kwargs):
    """An operator whose result goes to ``out``, which takes its sizes, too."""
    out = kwargs.pop("out")
    given = any(isinstance(a, Sparse) for a in (*args, *kwargs.values()))
    # what makes tensors makes them as out is
    found = answer(func, args, kwargs) if given else func(*args, **{"dtype": out.dtype, **kwargs})
    if isinstance(out, Sparse):
        return received(out, found)
    check_cast(found._meta, out._meta)
    if tuple(out.shape) != tuple(found.shape):
        OPS["resize_"](out, tuple(found.shape))
    return out.copy_(dense(found))


def received(target, found):
    """A sparse tensor with what another tensor holds, in its own layout and dtype."""
    check_cast(found._meta, target._meta)
    if not isinstance(found, Sparse):
        found = to_sparse(found)
    if found.layout is not target.layout:
        found = found.to_sparse(layout=target.layout, blocksize=blocks_of(target))
    target.become(found)
    return target


def blocks_of(x):
    """The size of blocks; None in other layouts."""
    return tuple(x.elements.shape[1:3]) if x.layout.name in ("sparse_bsr", "sparse_bsc") else None


def keeps_zeros(operator, args, kwargs) -> bool:
    """Whether an operator is elementwise and takes 0 to 0, for these other arguments."""
    if not is_elementwise(operator, args, kwargs, opened=True):
        return False
    zero = OPS["zeros"]((2,), dtype=args[0].dtype)
    return not bool((operator(zero, *args[1:], **kwargs) != 0).any())


# --- sums -------------------------------------------------------------------------------------------------------------
@rule("add")
def add(a, b, *, alpha=1):
    """Sparse and sparse give sparse, sparse and dense give dense."""
    if isinstance(a, Sparse) and isinstance(b, Sparse):
        x, y = a.coo(), b.coo()
        if tuple(a.shape) != tuple(b.shape):
            raise RuntimeError(f"add: expected sparse tensors of one size, got {list(a.shape)} and {list(b.shape)}")
        if x.sparse_dim() != y.sparse_dim():
            raise RuntimeError(f"add: expected as many sparse dimensions, got {x.sparse_dim()} and {y.sparse_dim()}")
        both = made(Coo, a.shape, OPS["cat"]([x.elements, y.elements * alpha]),
                    positions=OPS["cat"]([x.positions, y.positions], 1), coalesced=False)
        return both.to_sparse_csr() if isinstance(a, Csr) else both.coalesce() if x.coalesced and y.coalesced else both
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return OPS["add"](dense(a), dense(b), alpha=alpha)
    raise UnsupportedLayoutError("add: a number cannot be added to a sparse tensor, where it would fill every place",
                                 "tensors", "convert with to_dense() first")


@rule("sub")
def sub(a, b, *, alpha=1):
    return add(a, b, alpha=-alpha)


def dense(x):
    return x.to_dense() if isinstance(x, Sparse) else x


@rule("sum")
def total(input, dim=None, keepdim=False, *, dtype=None):
    """The sum of all elements, or over dimensions: sparse while a sparse dimension is left."""
    x = input.coo()
    elements = x.elements if dtype is None else x.elements.to(dtype)
    if dim is None or dim == ():
        return elements.sum()
    if keepdim:
        raise UnsupportedLayoutError("sum: keepdim is not implemented for sparse tensors", "keepdim=False",
                                     "unsqueeze the result")
    dims = {wrapped(d, x.dim()) for d in ((dim,) if isinstance(dim, int) else dim)}
    count = x.sparse_dim()
    inner = tuple(d - count + 1 for d in sorted(dims) if d >= count)
    elements = elements.sum(inner) if inner else elements
    left = [d for d in range(count) if d not in dims]
    if not left:
        return elements.sum(0)
    shape = [size for d, size in enumerate(x.shape) if d not in dims]
    out = made(Coo, shape, elements, positions=x.positions[left], coalesced=x.coalesced and len(left) == count)
    return out.coalesce()


# --- products ---------------------------------------------------------------------------------------------------------
@rule("mul")
def mul(a, b):
    """Elements at places that both keep."""
    if not isinstance(a, Sparse):
        a, b = b, a
    if not isinstance(b, Tensor) or not isinstance(b, Sparse) and not b.dim():
        return a.with_elements(a.elements * b)
    if isinstance(b, Sparse):
        return meeting(a.coo().coalesce(), b.coo().coalesce())
    own = a.coalesce() if isinstance(a, Coo) else a
    return own.with_elements(own.elements * masked(b.expand(tuple(a.shape)), own).elements)


def meeting(a, b):
    if tuple(a.shape) != tuple(b.shape):
        raise RuntimeError(f"mul: expected sparse tensors of one size, got {list(a.shape)} and {list(b.shape)}")
    x, y = a.flat(), b.flat()
    if not a._nnz() or not b._nnz():
        return made(Coo, a.shape, a.elements[:0], positions=a.positions[:, :0], coalesced=True)
    at = OPS["searchsorted"](y, x).clamp(max=y.size(0) - 1)
    kept = (y[at] == x).nonzero().reshape(-1)
    return made(Coo, a.shape, a.elements[kept] * b.elements[at[kept]], positions=a.positions[:, kept], coalesced=True)


@rule("div")
def div(a, b, *, rounding_mode=None):
    if not isinstance(a, Sparse) or isinstance(b, Sparse) or isinstance(b, Tensor) and b.dim():
        raise UnsupportedLayoutError("div: a sparse tensor is divided by a number or a tensor without dimensions",
                                     "a number", "convert with to_dense() first")
    return a.with_elements(OPS["div"](a.elements, b, rounding_mode=rounding_mode))


@rule("mm", "matmul", "mv")
def mm(a, b, reduce=None):
    """A matrix product of which one side, or both, are sparse; ``reduce`` combines products in another way than their
    sum."""
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if reduce not in (None, "sum", "mean", "amax", "amin"):
        raise ValueError(f"reduce is one of sum, mean, amax and amin, got {reduce!r}")
    if a.dim() != 2 or b.dim() not in (1, 2) or a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mm: mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, a.shape))} and "
            f"{'x'.join(map(str, b.shape))})")
    if not isinstance(a, Sparse):
        return transposed_(mm(transpose(b, 0, 1), a.t() if a.dim() == 2 else a))
    if isinstance(b, Sparse):
        product = both_sparse(a.coo(), b.coo())
        return product.to_sparse_csr() if isinstance(a, Csr) else product
    return rows_combined(a.coo(), b, reduce)


@rule("nn.functional.linear")
def linear(input, weight, bias=None):
    """input @ weight^T + bias, where one of the two factors is sparse."""
    if not isinstance(input, Sparse) and input.dim() != 2:
        return linear(input.reshape(-1, input.shape[-1]), weight, bias).reshape(*input.shape[:-1], weight.shape[0])
    product = mm(input, transpose(weight, 0, 1) if isinstance(weight, Sparse) else weight.t())
    return product if bias is None else add(product, bias) if isinstance(product, Sparse) else product + bias


def transposed_(x):
    return x.t() if x.dim() == 2 else x


def rows_combined(a, b, reduce):
    rows, columns = a.positions
    weights = a.elements if b.dim() == 1 else a.elements.unsqueeze(1)
    parts = weights * b[columns]
    out = parts.new_zeros((a.shape[0], *b.shape[1:]))
    if reduce in ("amax", "amin"):
        return out.index_reduce(0, rows, parts, reduce, include_self=False)
    out = out.index_add(0, rows, parts)
    if reduce == "mean":
        count = OPS["bincount"](rows, minlength=a.shape[0]).clamp(min=1).to(out.dtype)
        out = out / (count if b.dim() == 1 else count.unsqueeze(1))
    return out


def both_sparse(a, b):
    """Every element (i, k) of a meets the elements (k, j) of b."""
    own = b.to_sparse_csr()
    rows, inner = a.positions
    counts = (own.starts[1:] - own.starts[:-1])[inner]
    left = OPS["arange"](a._nnz()).repeat_interleave(counts)
    ends = counts.cumsum(0)
    right = OPS["arange"](left.size(0)) - (ends - counts)[left] + own.starts[inner][left]
    at = OPS["stack"]([rows[left], own.columns[right]])
    return made(Coo, (a.shape[0], b.shape[1]), a.elements[left] * own.elements[right], positions=at,
                coalesced=False).coalesce()


@rule("addmm")
def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """beta * input + alpha * (mat1 @ mat2)."""
    product = mm(mat1, mat2)
    return add(input * beta,
               product * alpha) if isinstance(product, Sparse) or isinstance(
                   input, Sparse) else input * beta + product * alpha


# --- shapes -----------------------------------------------------------------------------------------------------------
@rule("transpose")
def transpose(input, dim0, dim1):
    """Two sparse dimensions exchanged."""
    x, order = input.coo(), list(range(input.dim()))
    i, j = wrapped(dim0, x.dim()), wrapped(dim1, x.dim())
    if i == j:
        return input
    order[i], order[j] = order[j], order[i]
    out = permute(input, order)
    turned = {i, j} == {x.dim() - 2, x.dim() - 1} and TURNED.get(input.layout)
    return out.to_sparse(layout=turned) if turned else out


@rule("adjoint")
def adjoint(input):
    """The last two dimensions exchanged, and complex elements conjugated."""
    turned = transpose(input, -2, -1)
    return turned.with_elements(turned.elements.conj()) if input.is_complex() else turned


@rule("t")
def t(input):
    if input.dim() > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {input.dim()} dimensions")
    return transpose(input, 0, 1) if input.dim() == 2 else input


@rule("permute")
def permute(input, *order, dims=None):
    """Sparse dimensions in another order, dense dimensions too, but not mixed."""
    x = input.coo()
    order = [wrapped(d, x.dim()) for d in sizes_of(order if dims is None else dims)]
    count = x.sparse_dim()
    if sorted(order) != list(range(x.dim())) or any(d >= count for d in order[:count]):
        raise RuntimeError(f"permute: expected an order of sparse dimensions, then of dense ones, got {order}")
    inner = (0, *(d - count + 1 for d in order[count:]))
    out = made(Coo, [x.shape[d] for d in order], x.elements.permute(inner), positions=x.positions[order[:count]],
               coalesced=order[:count] == list(range(count)) and x.coalesced)
    return out.to_sparse_csr() if isinstance(input, Csr) else out


@rule("cat")
def cat(tensors, dim=0, **more):
    """Sparse tensors side by side along a sparse dimension."""
    parts = [x.coo() for x in tensors]
    at = wrapped(dim, parts[0].dim())
    if at >= parts[0].sparse_dim():
        raise UnsupportedLayoutError(f"cat: dimension {at} is dense in these sparse tensors", "a sparse dimension",
                                     "convert with to_dense() first")
    start, places = 0, []
    for x in parts:
        shift = x.positions.new_zeros((x.sparse_dim(), 1))
        shift[at] = start
        places.append(x.positions + shift)
        start += x.shape[at]
    shape = [start if k == at else size for k, size in enumerate(parts[0].shape)]
    return made(Coo, shape, OPS["cat"]([x.elements for x in parts]), positions=OPS["cat"](places, 1),
                coalesced=False).coalesce()


@rule("index_select")
def index_select(input, dim, index):
    """Rows, columns or further slices, chosen along a sparse dimension."""
    x, at = input.coo().coalesce(), wrapped(dim, input.dim())
    size = x.shape[at]
    if index.numel() and not -size <= int(index.min()) <= int(index.max()) < size:
        raise IndexError(
            f"index_select(): index contains {int(index.min())} or {int(index.max())} that is out of range for tensor "
            f"of size {list(x.shape)} at dimension {at}")
    index = OPS["where"](index < 0, index + size, index)
    shape = [index.numel() if k == at else size for k, size in enumerate(x.shape)]
    if at >= x.sparse_dim():
        return made(Coo, shape, x.elements.index_select(at - x.sparse_dim() + 1, index), positions=x.positions,
                    coalesced=True)
    chosen, kept = (index.unsqueeze(1) == x.positions[at]).nonzero().t()
    places = x.positions[:, kept]
    places[at] = chosen
    return made(Coo, shape, x.elements[kept], positions=places, coalesced=False).coalesce()


@rule("select")
def select(input, dim, index):
    """One slice along a sparse dimension: sparse, or dense where no sparse dimension is left."""
    size = input.shape[wrapped(dim, input.dim())]
    one = index_select(input, dim, OPS["full"]((1,), index % size))
    return total(one, dim) if isinstance(one, Sparse) else one


@rule("unsqueeze")
def unsqueeze(input, dim):
    """One more dimension: a sparse one where it comes before the dense ones or first among them."""
    x, at = input.coo(), wrapped(dim, input.dim() + 1)
    shape, count = (*x.shape[:at], 1, *x.shape[at:]), x.sparse_dim()
    if at > count:
        return made(Coo, shape, x.elements.unsqueeze(at - count + 1), positions=x.positions, coalesced=x.coalesced)
    zeros = x.positions.new_zeros((1, x._nnz()))
    return made(Coo, shape, x.elements, positions=OPS["cat"]([x.positions[:at], zeros, x.positions[at:]]),
                coalesced=x.coalesced)


@rule("stack")
def stack(tensors, dim=0):
    """Sparse tensors along a new sparse dimension."""
    return cat([unsqueeze(x, wrapped(dim, x.dim() + 1)) for x in tensors], wrapped(dim, tensors[0].dim() + 1))


@rule("narrow_copy", "narrow")
def narrow(input, dim, start, length):
    """The elements of some slices, from ``start`` on."""
    x, at = input.coo(), wrapped(dim, input.dim())
    size = x.shape[at]
    if not -size <= start <= size or length < 0 or start % max(
            size, 1) + length > size and start != size or start == size and length:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    start = start + size if start < 0 else start
    shape = [length if k == at else n for k, n in enumerate(x.shape)]
    if at >= x.sparse_dim():
        return made(Coo, shape, x.elements.narrow(at - x.sparse_dim() + 1, start, length), positions=x.positions,
                    coalesced=x.coalesced)
    kept = ((x.positions[at] >= start) & (x.positions[at] < start + length)).nonzero().reshape(-1)
    places = x.positions[:, kept]
    places[at] -= start
    return made(Coo, shape, x.elements[kept], positions=places, coalesced=x.coalesced)


# --- all elements -----------------------------------------------------------------------------------------------------
@rule("norm")
def norm(input, p="fro", dim=None, keepdim=False, *, dtype=None):
    """The norm of all elements."""
    if dim is not None and len(dim if isinstance(dim, (tuple, list)) else (dim,)) or keepdim:
        raise UnsupportedLayoutError("norm: a sparse tensor has the norm of all its elements only",
                                     "no dim, keepdim=False", "convert with to_dense() first")
    own = input.coalesce() if isinstance(input, Coo) else input
    return OPS["norm"](own.elements.reshape(-1), p, dtype=dtype)


@rule("any")
def some(input):
    """Whether any element is not zero."""
    return OPS["any"](input.coo().coalesce().elements)


# --- copies -----------------------------------------------------------------------------------------------------------
@rule("clone")
def clone(input, *, memory_format=None):
    return input.clone()


@rule("detach")
def detach(input):
    return input.detach()


def emptied(input, shape, dtype, layout):
    """A tensor of some sizes that keeps nothing, in a layout: that of the input if none is named."""
    layout = layout or input.layout
    if layout is strided:
        return OPS["zeros"](shape, dtype=dtype)
    count = input.sparse_dim() if tuple(shape) == tuple(input.shape) else None
    return vacant(shape, dtype, count).to_sparse(layout=layout, blocksize=blocks_of(input) if layout is input.layout
                                                 else None)


@rule("zeros_like", "empty_like")
def zeros_like(input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
               memory_format=None):
    """No element kept."""
    out = emptied(input, tuple(input.shape), dtype or input.dtype, layout)
    return out.requires_grad_() if requires_grad else out


@rule("new_zeros", "new_empty")
def new_zeros(input, *size, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
              memory_format=None):
    """No element kept, in the layout of this tensor."""
    out = emptied(input, sizes_of(size), dtype or input.dtype, layout)
    return out.requires_grad_() if requires_grad else out


@rule("copy_")
def copy_(input, src, non_blocking=False):
    check_shape(src._meta, input._meta)
    if not (isinstance(input, Sparse) and isinstance(src, Sparse)):
        raise RuntimeError(
            f"copy_() between dense and sparse Tensors is not implemented! Found self in the layout {input.layout} "
            f"and src in {src.layout}")
    return received(input, src.clone().to(input.dtype))


@rule("resize_as_")
def resize_as_(input, the_template, memory_format=None):
    """Takes the sizes of another sparse tensor."""
    if not isinstance(input, Coo) or not isinstance(the_template, Coo):
        raise UnsupportedLayoutError("resize_as_: not implemented for these layouts", "sparse tensors by coordinates",
                                     "make a new tensor")
    return input.sparse_resize_(the_template.shape, the_template.sparse_dim(), the_template.dense_dim())
