"""Exceptions that statements of scripted programs raise, as ``torch.jit.Error``."""
from __future__ import annotations

import dis
import traceback

PACKAGE = __name__.partition(".")[0]
RAISE = dis.opmap["RAISE_VARARGS"]


class Error(RuntimeError):
    """An exception that a ``raise`` or ``assert`` statement of a scripted program raised; it is its ``__cause__``."""


Error.__module__ = "torch.jit"


def is_raised_by_statement(error: Exception) -> bool:
    """True if a ``raise`` or ``assert`` outside of the package raised an exception, or ``torch._assert`` did."""
    last = error.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    frame = last.tb_frame
    if frame.f_globals.get("__name__", "").partition(".")[0] in (PACKAGE, "torch"):
        return isinstance(error, AssertionError)
    return frame.f_code.co_code[last.tb_lasti] == RAISE


def run_script(function, args, kwargs):
    """Call a scripted function. Error in place of exceptions that its own statements raise; those of operators stay."""
    try:
        return function(*args, **kwargs)
    except Error:
        raise
    except Exception as error:
        if not is_raised_by_statement(error):
            raise
        text = "".join(traceback.format_exception_only(type(error), error))
        raise Error(f"The following operation failed in the TorchScript interpreter.\n{text}") from error
