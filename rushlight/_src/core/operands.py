"""Check operands: the Python types that an operator's tensors, sizes, dimensions and flags may have.

A parameter's kind follows from its name, which means the same in every operator of the package, or is int by its
annotation; ``None`` is valid if it is the default. Checked when a plan is made, so that calls pay nothing.
"""
from __future__ import annotations

import functools

from .dtypes import INTEGER
from .errors import OperandError
from .native import Op, Tensor
from .op import declared_scalars

TENSOR, INT, PLACES, INTS, FLAG, FLOAT, TEXT = ("Tensor", "int", "int or tuple of ints", "tuple of ints", "bool",
                                                "float", "str")
NAMES = {
    TENSOR: "A B LD LU LU_data LU_pivots input1 input2 mask mat mat1 mat2 pivots tensor1 tensor2 values vec vec1 vec2 "
            "x1 x2",
    INT: "N blank chunks decimals diagonal dim0 dim1 dim2 dimension divisor_override downscale_factor edge_order "
         "end_dim groups hop_length ignore_index ind k length m minlength n_fft num_chunks "
         "num_classes num_groups num_samples offset padding_idx start_dim steps storage_offset upscale_factor "
         "win_length window_length",
    PLACES: "dim n size",
    INTS: "dilation dims kernel_size normalized_shape output_padding pad physical_layout repeats shape shifts sizes "
          "split_sizes stride times which",
    FLAG: "accumulate adjoint align_corners assume_unique ceil_mode center check_errors compute_uv count_include_pad "
          "density descending equal_nan full_matrices hermitian include_last_offset "
          "include_self increasing invert is_causal keepdim largest left normalized onesided out_int32 periodic pivot "
          "replacement right scale_grad_by_freq some sorted sparse_grad stable "
          "unbiased unitriangular unpack_data unpack_pivots with_replacement wrap zero_infinity",
    FLOAT: "delta dropout_p eps momentum",
    TEXT: "UPLO approximate driver indexing interpolation rounding_mode side",
}
KINDS = {name: kind for kind, names in NAMES.items() for name in names.split()}
# parameters whose ints are sizes, dimensions and similar: those of some kinds, and those that bodies check
COUNTS = {name for name, kind in KINDS.items() if kind in (INT, PLACES, INTS)}.union(
    "axis destination index output_size padding source start step".split())
NO_TENSOR = (bool, int, float, complex, str, list, tuple, dict, type(None))
NO_INT = (bool, float, complex, str, bytes, list, tuple, dict, type(None))
BEYOND = 1 << 63


@functools.lru_cache(maxsize=None)
def parameters(op: Op) -> tuple:
    """({name: (the kind that it takes, True if None is valid)}, names by position, and the index of the one that takes
    all further arguments) of an operator. Run-time scalars that are not ints by name, and parameters annotated
    ``object``, are left to the body."""
    scalars, found, order, last = declared_scalars(op), {}, [], None
    for k, parameter in enumerate(op.signature.parameters.values()):
        kind = INT if parameter.annotation in (int, "int") else KINDS.get(parameter.name)
        free = scalars >> k & 1 and kind is not INT
        if kind is not None and not free and parameter.annotation not in (object, "object"):
            found[parameter.name] = kind, parameter.default is None
        last = k if parameter.kind is parameter.VAR_POSITIONAL else last
        order.append(parameter.name)
    return found, tuple(order), len(order) - 1 if last is None else last


def takes_element(op: Op, name: str) -> bool:
    """True if a number given for a parameter is used in computations like an element: parameters of operators that
    users call, unless their name says that they take sizes or dimensions."""
    if op.kind is not None or "::" in op.name or op.name.rpartition(".")[2].startswith("_"):
        return False
    return name not in COUNTS


def check_operands(op: Op, args, names=()):
    """Raise TypeError for an argument of a type that the operator does not take, ValueError for an integer beyond 64
    bits."""
    # called by bodies, which pass valid operands
    if op.signature is None or op.kind is not None or op.traits.get("derived") or op.name.rpartition(".")[2].startswith(
            "_"):
        return
    if "::" in op.name:  # of a library: its parameters are called as it likes
        return
    kinds, order, last = parameters(op)
    positional = len(args) - len(names or ())
    check_tensors(op, order, args[:positional])
    # as in var(input, unbiased)
    if op.traits.get("lone_bool") and len(args) == positional == 2 and type(args[1]) is bool:
        return
    for k, value in enumerate(args):
        name = names[k - positional] if k >= positional else order[min(k, last)]
        kind, optional = kinds.get(name, (None, False))
        if kind is not None and not (value is None and optional):
            wrong = CHECKS[kind](value)
            if wrong is not None:
                raise OperandError(f"{op.name}(): argument '{name}' (position {k + 1}) must be {kind}, {wrong}")


def check_tensors(op: Op, order, args):
    """TypeError for a number or a text where ``input`` or ``other`` must be a tensor."""
    any_tensor = any(isinstance(a, Tensor) for a in args)
    numbers_too = op.traits.get("number_first") and (any_tensor or op.traits.get("numbers"))
    for k, (name, value) in enumerate(zip(order, args)):
        if (name == "input" and k == 0 and not numbers_too or name == "other" and not declared_scalars(op) >> k & 1
            and not op.traits.get("number_first")):
            wrong = no_tensor(value)
            if wrong is not None:
                raise OperandError(f"{op.name}(): argument '{name}' (position {k + 1}) must be Tensor, {wrong}")


def no_tensor(value):
    return but(value) if type(value) in NO_TENSOR else None


def no_int(value):
    if type(value) is int and not -BEYOND <= value < BEYOND:
        raise ValueError("Overflow when unpacking long long: 64 bits do not hold the number")
    is_count = not isinstance(value, Tensor) or not value.dim() and value.dtype.category == INTEGER
    return but(value) if type(value) in NO_INT or not is_count else None


def no_places(value):
    return no_ints(value) if type(value) in (list, tuple) else no_int(value)


def no_ints(value):
    """As in PyTorch the first of several may be no bool; the others may."""
    if type(value) not in (list, tuple):
        return no_int(value)
    for k, element in enumerate(value):
        if type(element) in NO_INT and (type(element) is not bool or not k):
            return f"but found element of type {type(element).__name__} at pos {k}"
        if type(element) is int and not -BEYOND <= element < BEYOND:
            return f"but 64 bits do not hold the number at pos {k}"
    return None


def no_flag(value):
    return but(value) if (type(value) in NO_TENSOR or isinstance(value, Tensor)) and type(value) is not bool else None


def no_float(value):
    return but(value) if type(value) in (complex, str, list, tuple, dict, type(None)) else None


def no_text(value):
    return but(value) if (type(value) in NO_TENSOR or isinstance(value, Tensor)) and type(value) is not str else None


def but(value) -> str:
    return f"not {type(value).__name__}"


CHECKS = {TENSOR: no_tensor, INT: no_int, PLACES: no_places, INTS: no_ints, FLAG: no_flag, FLOAT: no_float,
          TEXT: no_text}
