"""Operators on sparse tensors.

An operator whose program is elementwise, and which takes 0 to 0, acts on the elements that are kept: that covers most.
The others have a rule here; what has none raises, and says how to go on.
"""
from __future__ import annotations

from .._src.core.composed import member, rulebook
from .._src.core.convert import contiguous_format, sparse_csr, spell_layout, strided
from .._src.core.dtypes import int64
from .._src.core.errors import LeafWrittenError, UnsupportedLayoutError
from .._src.core.interpret import is_recording
from .._src.core.native import Op, Tensor
from .._src.core.op import OPS
from .._src.core.overriding import DisableTorchFunctionSubclass
from .._src.core.targets import check_cast, check_shape
from .._src.core.tensor import wrapped
from .._src.ops.shape import sizes_of
from .._src.transforms.elementwise import is_elementwise
from .compressed import Compressed
from .conversion import compress, make_vacant, sort_rows
from .indices import match_keys
from .tensor import Coo, Sparse, made, make_unordered, move, refuse_format, to_sparse

RULES, rule = rulebook()
WITHOUT_ELEMENTS = frozenset((  # members of tensors that ask for sizes and types only, or call ``to``
    "shape", "dtype", "device", "ndim", "dim", "size", "numel", "element_size", "is_floating_point", "is_complex",
    "float", "double", "half", "bfloat16", "long", "int",
    "type_as", "cpu", "__len__", "bool", "byte", "char", "short", "cfloat", "cdouble"))
WITH_OPERATORS = frozenset(("_transposed", "_adjoint", "mT", "mH"))  # what other operators make up, which have rules


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
        plain = OPS.get(func.name.removesuffix("_"))
        if plain is not func and plain in RULES and plain.traits.get("inplace_view"):
            return change_view(func.name, plain, args, kwargs)
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
        found = dense(answer(plain, args, kwargs)) if plain is not None else target
        return target.copy_(unmixed(func, target, found))
    check_leaf(target, func.name)
    if plain is None and not keeps_zeros(func, args, kwargs):
        raise UnsupportedLayoutError(f"{func.name}: not implemented for the layout {target.layout}", "dense tensors",
                                     "convert with to_dense() first")
    found = answer(plain, args, kwargs) if plain is not None else target.with_elements(func(target.elements.clone(),
                                                                                            *args[1:], **kwargs))
    check_shape(found._rush_meta, target._rush_meta)
    return received(target, unmixed(func, target, found))


def change_view(name, plain, args, kwargs):
    """A view in place, such as ``t_``: a COO tensor takes the indices and sizes of the view."""
    target = args[0]
    if not isinstance(target, Coo):
        raise UnsupportedLayoutError(f"{name}: not implemented for the layout {target.layout}", "torch.sparse_coo",
                                     f"use the result of {plain.name}()")
    check_leaf(target, name)
    found = answer(plain, args, kwargs)
    if found is not target:
        target.become(found)
    return target


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
    check_cast(found._rush_meta, out._rush_meta)
    if tuple(out.shape) != tuple(found.shape):
        OPS["resize_"](out, tuple(found.shape))
    return out.copy_(dense(found))


def received(target, found):
    """A sparse tensor with what another tensor holds, in its own layout and dtype."""
    check_cast(found._rush_meta, target._rush_meta)
    if not isinstance(found, Sparse):
        found = to_sparse(found)
    if found.layout is not target.layout:
        found = found.to_sparse(layout=target.layout, blocksize=blocks_of(target))
    target.become(found)
    return target


def blocks_of(x):
    """The size of blocks; None in other layouts."""
    return x.block() if isinstance(x, Compressed) and x.in_blocks else None


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
        if type(a) is type(b) and has_same_indices(a, b):
            return a.with_elements(a.elements + (b.elements if alpha == 1 else b.elements * alpha))
        ordered = all(not isinstance(z, Coo) or z.coalesced for z in (a, b))
        both = make_unordered(a.shape, OPS["cat"]([x.elements, y.elements if alpha == 1 else y.elements * alpha]),
                              OPS["cat"]([x.positions, y.positions], 1))
        return laid_as(a, both.coalesce() if ordered else both)
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return OPS["add"](dense(a), dense(b), alpha=alpha)
    raise UnsupportedLayoutError("add: a number cannot be added to a sparse tensor, where it would fill every place",
                                 "tensors", "convert with to_dense() first")


def has_same_indices(a, b) -> bool:
    """True if two tensors of one layout have equal indices."""
    pairs = [(getattr(a, name), getattr(b, name)) for name in a.places_of]
    return all(x is y or x.dtype is y.dtype and tuple(x.shape) == tuple(y.shape) and OPS["equal"](x, y)
               for x, y in pairs) and (
        tuple(a.elements.shape) == tuple(b.elements.shape))


def laid_as(like, x):
    """A COO tensor in the layout of ``like``, in blocks of its size."""
    if isinstance(like, Coo):
        return x
    return compress(type(like), sort_rows(x), like.batch_dim(), blocks_of(like), like.starts.dtype)


@rule("sub")
def sub(a, b, *, alpha=1):
    return add(a, b, alpha=-alpha)


def dense(x):
    return x.to_dense() if isinstance(x, Sparse) else x


@rule("sum")
def total(input, dim=None, keepdim=False, *, dtype=None):
    """The sum of all elements, or over dimensions: sparse while a sparse dimension is left."""
    if dim is None or dim == ():
        return (input.elements if dtype is None else input.elements.to(dtype)).sum()
    if isinstance(input, Compressed):
        return sum_compressed(input, dim, keepdim, dtype)
    x = input
    dtype = dtype or (None if x.dtype.is_inexact else int64)
    elements = x.elements if dtype is None else x.elements.to(dtype)
    dims = {wrapped(d, x.dim()) for d in ((dim,) if isinstance(dim, int) else dim)}
    count = x.sparse_dim()
    inner = tuple(d - count + 1 for d in sorted(dims) if d >= count)
    elements = elements.sum(inner, keepdim) if inner else elements
    left = [d for d in range(count) if d not in dims]
    if not left:
        found = elements.sum(0)
        return found.reshape((1,) * count + tuple(found.shape)) if keepdim else found
    shape = [1 if d in dims else size for d, size in enumerate(x.shape) if keepdim or d not in dims]
    positions = OPS["stack"]([x.positions[d] * (d not in dims) for d in range(count)]) if keepdim else x.positions[left]
    out = made(Coo, shape, elements, positions=positions, coalesced=x.coalesced and len(left) == count)
    return out.coalesce()


def sum_compressed(input, dim, keepdim, dtype):
    """Sums of rows or columns of a CSR matrix.  RuntimeError for other layouts, and without ``keepdim``."""
    if input.layout is not sparse_csr:
        raise RuntimeError("Currently the only compressed sparse format supported for sum.dim_IntList is CSR, but got "
                           f"layout {input.layout}")
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    if input.dim() != 2:
        raise RuntimeError(f"sum: expected a CSR matrix, got sizes {list(input.shape)}")
    found = total(input.coo(), dim, True, dtype=dtype)
    found = found if isinstance(found, Sparse) else found.reshape(1, 1).to_sparse() if input._nnz() else found
    return laid_as(input, found.to_sparse_coo())


# --- shapes -----------------------------------------------------------------------------------------------------------
@rule("transpose")
def transpose(input, dim0, dim1):
    """Two sparse dimensions swapped; a compressed layout becomes that of the other direction."""
    order = list(range(input.dim()))
    i, j = wrapped(dim0, input.dim()), wrapped(dim1, input.dim())
    if i == j:
        return input
    if isinstance(input, Compressed):
        first = input.batch_dim()
        if {i, j} != {first, first + 1}:
            raise RuntimeError("transpose(): can only transpose the two sparse dimensions of a compressed tensor, "
                               f"{first} and {first + 1}, got {i} and {j}")
        return input.transpose_matrix()
    order[i], order[j] = order[j], order[i]
    return permute(input, order)


@rule("adjoint")
def adjoint(input):
    """The last two dimensions exchanged, and complex elements conjugated."""
    turned = transpose(input, -2, -1)
    return turned.with_elements(turned.elements.conj()) if input.is_complex() else turned


@rule("t")
def t(input):
    if input.dim() > 2 or input.dense_dim():
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {input.dim()} dimensions, "
            f"{input.dense_dim()} of them dense")
    return transpose(input, 0, 1) if input.dim() == 2 else input


@rule("permute")
def permute(input, *order, dims=None):
    """Sparse dimensions in another order, dense dimensions too, but not mixed."""
    order = [wrapped(d, input.dim()) for d in sizes_of(order if dims is None else dims)]
    if len(set(order)) < len(order) == input.dim():
        raise RuntimeError(f"permute(): duplicate dims are not allowed, got {order}")
    if isinstance(input, Compressed):
        first = input.batch_dim()
        swapped = [*range(first), first + 1, first, *range(first + 2, input.dim())]
        if order not in (sorted(order), swapped):
            raise RuntimeError("permute: expected the two sparse dimensions of a compressed tensor swapped, got "
                               f"{order}")
        return input if order != swapped else input.transpose_matrix()
    x = input
    count = x.sparse_dim()
    if len(order) != x.dim():
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {x.dim()} is not equal to len(dims) = {len(order)}")
    if sorted(order) != list(range(x.dim())) or any(d >= count for d in order[:count]):
        raise RuntimeError(f"permute: expected an order of sparse dimensions, then of dense ones, got {order}")
    inner = (0, *(d - count + 1 for d in order[count:]))
    out = made(Coo, [x.shape[d] for d in order], x.elements.permute(inner), positions=x.positions[order[:count]],
               coalesced=order[:count] == list(range(count)) and x.coalesced)
    return out


@rule("cat")
def cat(tensors, dim=0, **more):
    """COO tensors concatenated along a dimension; along a dense one, each element is 0 in the parts of others."""
    parts = [x.coo() for x in tensors]
    at, count = wrapped(dim, parts[0].dim()), parts[0].sparse_dim()
    if any(x.sparse_dim() != count or x.dim() != parts[0].dim() for x in parts):
        raise RuntimeError("cat: expected as many sparse and dense dimensions, got "
                           f"{[(x.sparse_dim(), x.dense_dim()) for x in parts]}")
    start, positions, elements = 0, [], []
    size = sum(x.shape[at] for x in parts)
    for x in parts:
        own, shift = x.elements, x.positions.new_zeros((count, 1))
        if at < count:
            shift[at] = start
        else:
            inner = at - count + 1
            sizes = [list(own.shape) for _ in range(2)]
            sizes[0][inner], sizes[1][inner] = start, size - start - x.shape[at]
            own = OPS["cat"]([own.new_zeros(sizes[0]), own, own.new_zeros(sizes[1])], inner)
        positions.append(x.positions + shift)
        elements.append(own)
        start += x.shape[at]
    shape = [size if k == at else n for k, n in enumerate(parts[0].shape)]
    return make_unordered(shape, OPS["cat"](elements), OPS["cat"](positions, 1))


@rule("index_select")
def index_select(input, dim, index):
    """Rows, columns or further slices, chosen along a sparse dimension."""
    x, at = input.coo(), wrapped(dim, input.dim())
    size = x.shape[at]
    if index.numel() and not -size <= int(index.min()) <= int(index.max()) < size:
        raise IndexError(
            f"index_select(): index contains {int(index.min())} or {int(index.max())} that is out of range for tensor "
            f"of size {list(x.shape)} at dimension {at}")
    index = OPS["where"](index < 0, index + size, index)
    shape = [index.numel() if k == at else size for k, size in enumerate(x.shape)]
    if at >= x.sparse_dim():
        return make_unordered(shape, x.elements.index_select(at - x.sparse_dim() + 1, index), x.positions)
    order = OPS["argsort"](x.positions[at], stable=True)
    found, own = match_keys(index, x.positions[at][order])
    kept = order[own]
    positions = x.positions[:, kept]
    positions[at] = found
    return make_unordered(shape, x.elements[kept], positions)


@rule("select")
def select(input, dim, index):
    """One slice: a compressed matrix of a batch of them, COO of other sparse tensors, or dense where no sparse
    dimension is left."""
    at = wrapped(dim, input.dim())
    size = input.shape[at]
    if not -size <= index < size:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension "
                         f"{at}")
    index %= size
    if isinstance(input, Compressed) and at < input.batch_dim():
        shape = (*input.shape[:at], *input.shape[at + 1:])
        return made(type(input), shape, input.elements.select(at, index), starts=input.starts.select(at, index),
                    across=input.across.select(at, index))
    x = input.coo()
    shape, count = (*x.shape[:at], *x.shape[at + 1:]), x.sparse_dim()
    if at >= count:
        return make_unordered(shape, x.elements.select(at - count + 1, index), x.positions)
    kept = (x.positions[at] == index).nonzero().reshape(-1)
    elements = x.elements[kept]
    if count == 1:
        return elements.sum(0)
    left = [d for d in range(count) if d != at]
    return made(Coo, shape, elements, positions=x.positions[left][:, kept],
                coalesced=x.coalesced or elements.size(0) < 2)


@rule("unbind")
def unbind(input, dim=0):
    """All slices along a dimension."""
    return tuple(select(input, dim, k) for k in range(input.shape[wrapped(dim, input.dim())]))


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
    refuse_format(memory_format)
    return input.clone()


@rule("detach")
def detach(input):
    return input.detach()


def emptied(input, shape, dtype, layout):
    """A tensor of some sizes that keeps nothing, in a layout: that of the input if none is named."""
    layout = layout or input.layout
    if layout is strided:
        return OPS["zeros"](shape, dtype=dtype)
    dense_dim = input.dense_dim() if tuple(shape) == tuple(input.shape) else 0
    index = input.starts.dtype if isinstance(input, Compressed) else int64
    return make_vacant(shape, dtype, layout, blocks_of(input), dense_dim, index)


@rule("neg")
def neg(input):
    """The negated elements, which need not be coalesced for it."""
    return input.with_elements(-input.elements)


@rule("positive")
def positive(input):
    """The tensor itself."""
    return input


@rule("zero_")
def zero_(input):
    """Removes all elements in place."""
    check_leaf(input, "zero_")
    return received(input, zeros_like(input))


@rule("fill_")
def fill_(input, value):
    """Sets the stored elements of a compressed tensor in place."""
    need_compressed("fill_", input)
    check_leaf(input, "fill_")
    input.elements.fill_(value)
    return input


@rule("ones_like")
def ones_like(input, **options):
    """Ones at the stored elements of a compressed tensor."""
    return full_like(input, 1, **options)


@rule("full_like")
def full_like(input, fill_value, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
              memory_format=None):
    """One value at the stored elements of a compressed tensor."""
    if layout not in (None, input.layout):
        return OPS["full"](tuple(input.shape), fill_value, dtype=dtype or input.dtype, layout=layout,
                           device=input.device if device is None else device, pin_memory=pin_memory,
                           requires_grad=requires_grad)
    need_compressed("full_like", input)
    refuse_format(None if memory_format is contiguous_format else memory_format)
    out = move(input.with_elements(OPS["full_like"](input.elements.detach(), fill_value, dtype=dtype)), device,
               pin_memory)
    return out.requires_grad_() if requires_grad else out


def need_compressed(name, input):
    """UnsupportedLayoutError for COO tensors, whose other elements are 0."""
    if not isinstance(input, Compressed):
        raise UnsupportedLayoutError(f"{name}: not implemented for the layout {input.layout}", "compressed layouts",
                                     "convert with to_dense() first")


def check_leaf(target, name):
    """LeafWrittenError for a leaf that requires grad, which must not be written in place."""
    if target.requires_grad and target.is_leaf and is_recording():
        raise LeafWrittenError(
            f"a leaf Variable that requires grad is being used in an in-place operation ({name})",
            "a result, or a leaf without gradient", "change a clone()")


@rule("randn_like")
def randn_like(input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
               memory_format=None):
    """Normally distributed values at the stored elements of a compressed tensor."""
    need_compressed("randn_like", input)
    refuse_format(None if memory_format is contiguous_format else memory_format)
    check_same_layout(input, layout)
    drawn = OPS["randn_like"](input.elements.detach(), dtype=dtype)
    out = move(input.with_elements(drawn), device, pin_memory)
    return out.requires_grad_() if requires_grad else out


def check_same_layout(input, layout):
    """RuntimeError for another layout than that of a compressed tensor, whose indices the result has."""
    if layout not in (None, input.layout):
        raise RuntimeError("empty_like with different sparse layout is not supported (self is "
                           f"{spell_layout(input.layout)} but you requested {spell_layout(layout)})")


@rule("empty_like")
def empty_like(input, *, layout=None, device=None, pin_memory=False, requires_grad=False, **options):
    """Uninitialized elements at the indices of a compressed tensor; in other layouts, no elements."""
    if not isinstance(input, Compressed) or layout is strided:
        return zeros_like(input, layout=layout, device=device, pin_memory=pin_memory, requires_grad=requires_grad,
                          **options)
    check_same_layout(input, layout)
    out = move(input.with_elements(OPS["empty_like"](input.elements.detach(), **options)), device, pin_memory)
    return out.requires_grad_() if requires_grad else out


@rule("zeros_like")
def zeros_like(input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
               memory_format=None):
    """No element kept."""
    if isinstance(input, Coo):
        refuse_format(memory_format)
    out = move(emptied(input, tuple(input.shape), dtype or input.dtype, layout),
               input.device if device is None else device, pin_memory)
    return out.requires_grad_() if requires_grad else out


@rule("new_zeros", "new_empty")
def new_zeros(input, *size, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """No element kept, in the layout of this tensor."""
    out = move(emptied(input, sizes_of(size), dtype or input.dtype, layout), input.device if device is None else device,
               pin_memory)
    return out.requires_grad_() if requires_grad else out


@rule("copy_")
def copy_(input, src, non_blocking=False):
    check_shape(src._rush_meta, input._rush_meta)
    if not (isinstance(input, Sparse) and isinstance(src, Sparse)):
        raise RuntimeError(
            f"copy_() between dense and sparse Tensors is not implemented! Found self in the layout {input.layout} "
            f"and src in {src.layout}")
    return received(input, src.clone().to(input.dtype))


@rule("resize_as_")
def resize_as_(input, the_template, memory_format=None):
    """Takes the sizes of another sparse tensor."""
    refuse_format(memory_format)
    if not isinstance(input, Coo) or not isinstance(the_template, Coo):
        raise UnsupportedLayoutError("resize_as_: not implemented for these layouts", "sparse tensors by coordinates",
                                     "make a new tensor")
    return input.sparse_resize_(the_template.shape, the_template.sparse_dim(), the_template.dense_dim())
