"""Former orders of arguments, with factors among the tensors: PyTorch still accepts them, with a warning."""
from ..core.advice import warn
from ..core.native import Tensor
from ..core.op import OPS

FACTORS = {"alpha", "beta", "value"}
PRODUCT = (("beta", "input", "alpha", "mat1", "mat2"), ("beta", "input", "mat1", "mat2"),  # of functions
           ("input", "beta", "alpha", "mat1", "mat2"), ("input", "beta", "mat1", "mat2"))  # of methods
THIRD = (("input", "value", "tensor1", "tensor2"),)
SUM = (("input", "alpha", "other"),)
ORDERS = {"add": SUM, "sub": SUM, "addcmul": THIRD, "addcdiv": THIRD,
          **dict.fromkeys(("addmm", "addmv", "addr", "addbmm", "baddbmm"), PRODUCT)}


def fits(name: str, value) -> bool:
    """True if an argument fits a parameter of a former order."""
    is_number = isinstance(value, (int, float, complex))
    return is_number if name in FACTORS else isinstance(value, Tensor) or name == "other" and is_number


def former(name: str, written: str | None = None):
    """Trait ``otherwise`` of an operator with a former order of arguments, or of a variant: ``add_`` for ``add``.

    From the arguments after the first one it makes the intended call, as a function of the first one; None if they are
    in the current order.
    """
    written = written or name

    def found(*rest):
        for order in ORDERS[name]:
            if len(order) == len(rest) + 1 and all(map(fits, order[1:], rest)):
                return lambda first: call(written, order, (first, *rest))
        return None
    found.by_position = True
    return found


def call(name: str, order: tuple, args: tuple):
    """Call the operator with its arguments in today's order; TypeError if the first one must be a number and is not, or
    vice versa."""
    if not fits(order[0], args[0]):
        raise TypeError(
            f"{name}() received an invalid combination of arguments: a {type(args[0]).__name__} for {order[0]} in "
            f"{name}({', '.join(order)})")
    tensors, factors = [n for n in order if n not in FACTORS], [n for n in order if n in FACTORS]
    warn(f"This overload of {name} is deprecated:\n\t{name}({', '.join(order)})\nConsider using one of the following "
         "signatures instead:\n"
         f"\t{name}({', '.join(tensors)}, *, {', '.join(f'{n} = 1' for n in factors)})")
    given = dict(zip(order, args))
    return OPS[name](*(given[n] for n in tensors), **{n: given[n] for n in factors})
