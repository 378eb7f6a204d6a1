"""Errors with numbers. Each is a subclass of the exception that PyTorch raises, and has a page in ``docs/errors/``."""


class Numbered(Exception):
    """An error that reports the observed value, the accepted ones and the nearest remedy.

    >>> print(Numbered("a is 3 long", "4 elements", "pad it"))
    a is 3 long
      wanted: 4 elements
      remedy: pad it
    """

    number: int | None = None

    def __init__(self, seen, wanted="", remedy=""):
        super().__init__(seen, wanted, remedy)

    def __str__(self):
        seen, wanted, remedy = self.args
        lines = [str(seen)]
        if wanted:
            lines.append(f"  wanted: {wanted}")
        if remedy:
            lines.append(f"  remedy: {remedy}")
        if self.number is not None:
            lines[-1] += f" [error {self.number}]"
        return "\n".join(lines)


# --- 100: shapes ------------------------------------------------------------------------------------------------------
class BroadcastError(Numbered, RuntimeError):
    """Shapes that do not broadcast to one another."""

    number = 101


class ProductError(Numbered, RuntimeError):
    """A matmul of shapes whose inner sizes differ, or of the wrong rank."""

    number = 102


class JoinError(Numbered, RuntimeError):
    """Tensors that cannot be concatenated."""

    number = 103


class ReshapeError(Numbered, RuntimeError):
    """A shape with another number of elements."""

    number = 104


class ViewError(Numbered, RuntimeError):
    """A view that strides cannot express."""

    number = 105


class ExpandError(Numbered, RuntimeError):
    """A shape to which a tensor does not expand."""

    number = 106


class NegativeSizeError(Numbered, RuntimeError):
    """A size below zero."""

    number = 107


class TargetShapeError(Numbered, RuntimeError):
    """A result that does not fit the tensor it is written into."""

    number = 108


# --- 200: dtypes ------------------------------------------------------------------------------------------------------
class CastError(Numbered, RuntimeError):
    """A result whose dtype does not convert to that of the tensor it is written into."""

    number = 201


class DtypeMismatchError(Numbered, RuntimeError):
    """Operands that must share a dtype and do not."""

    number = 202


class OperandError(Numbered, TypeError):
    """An argument of the wrong type."""

    number = 203


# --- 300: indices -----------------------------------------------------------------------------------------------------
class DimensionError(Numbered, IndexError):
    """A dimension that the tensor does not have."""

    number = 301


class IndexRangeError(Numbered, IndexError):
    """An index outside its dimension."""

    number = 302


class IndexCountError(Numbered, IndexError):
    """More indices than dimensions."""

    number = 303


# --- 400: gradients ---------------------------------------------------------------------------------------------------
class LeafWrittenError(Numbered, RuntimeError):
    """A leaf that requires a gradient written in place."""

    number = 401


class GraphFreedError(Numbered, RuntimeError):
    """A second backward pass through a graph that the first one freed."""

    number = 402


class StaleValueError(Numbered, RuntimeError):
    """A value that the backward pass needs, changed in place since."""

    number = 403


class NoHistoryError(Numbered, RuntimeError):
    """A backward pass from a tensor that does not depend on anything that requires a gradient."""

    number = 404


class NotScalarError(Numbered, RuntimeError):
    """A backward pass from several elements without weights for them."""

    number = 405


class OutGradientError(Numbered, RuntimeError):
    """``out=`` where a gradient would have to be recorded."""

    number = 406


class InferenceTensorError(Numbered, RuntimeError):
    """Something that only tensors with a version counter can do, asked of one made in inference mode."""

    number = 407


# --- 500: memory ------------------------------------------------------------------------------------------------------
class OverlapError(Numbered, RuntimeError):
    """A tensor read while memory it shares is written."""

    number = 501


class SelfOverlapError(Numbered, RuntimeError):
    """A write to a tensor whose own elements share memory."""

    number = 502


class OutOfMemoryError(Numbered, RuntimeError):
    """An allocation that the machine cannot serve."""

    number = 503


class AcceleratorError(RuntimeError):
    """An error reported by a device's driver. ``error_code``: the driver's number for it."""

    def __init__(self, text: str, error_code: int = 0):
        super().__init__(text)
        self.error_code = error_code


class StorageBoundsError(Numbered, RuntimeError):
    """A view that reaches beyond its storage."""

    number = 504


# --- 600: files -------------------------------------------------------------------------------------------------------
class CorruptFileError(Numbered, RuntimeError):
    """A file whose content violates its format."""

    number = 601


# --- 700: layouts -----------------------------------------------------------------------------------------------------
class UnsupportedLayoutError(Numbered, NotImplementedError):
    """An operator that has no meaning yet for sparse or jagged tensors."""

    number = 701


# --- 800: numbers -----------------------------------------------------------------------------------------------------
class ZeroDivisorError(Numbered, RuntimeError):
    """A division of integers by 0, which has no result."""

    number = 801

    def __init__(self, seen, wanted="divisors other than 0",
                 remedy="divide by where(d == 0, 1, d) and replace those results, or divide floating-point numbers"):
        super().__init__(seen, wanted, remedy)


# --- 900: devices -----------------------------------------------------------------------------------------------------
class NoDeviceError(Numbered, AssertionError, NotImplementedError):
    """A device that this machine or this build does not have; PyTorch raises AssertionError or RuntimeError, by the
    function that is called."""

    number = 901


# --- 1000: not implemented --------------------------------------------------------------------------------------------
class NotBuiltError(Numbered, NotImplementedError):
    """A name of PyTorch that can be imported here and does nothing yet."""

    number = 1001


class OneProcessError(Numbered, NotImplementedError):
    """Something that needs several processes with tensors in common."""

    number = 1002


class QuantizedError(Numbered, NotImplementedError):
    """A part of quantization that is not built."""

    number = 1003
