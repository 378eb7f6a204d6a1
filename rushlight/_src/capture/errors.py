"""Reasons for graph breaks, by number, and the errors that report them."""
from __future__ import annotations

REASONS = {
    "RB001": ("a call that cannot be recorded in a graph",
              "Move the call out of the compiled function, or mark it with compiler.disable to make the break "
              "explicit."),
    "RB002": ("control flow depends on the value of a tensor",
              "Use torch.where or torch.cond instead of a Python branch, or keep the number in a tensor."),
    "RB003": ("the value of a data-dependent number is needed",
              "Keep the value in a tensor; use it as a number after the compiled function."),
    "RB004": ("an operation on a Python object that capture does not model", "Move it out of the compiled function."),
    "RB005": ("an instruction that capture does not model", "Rewrite the line with simpler statements."),
    "RB006": ("an explicit graph break", "Remove the graph_break() or compiler.disable."),
    "RB007": ("a call that raised during capture", "Run the function uncompiled to see the error."),
    "RB008": ("code that inspects its own frame", "Avoid locals(), vars() and sys._getframe in compiled code."),
    "RB009": ("input or output",
              "Do it outside the compiled function. print(), warnings and logging of values without history need no "
              "break."),
    "RB010": ("a generator or coroutine in mid-flight", "Turn the generator into a list, or keep breaks out of it."),
    "RB011": ("autograd state is changed",
              "Change requires_grad, register hooks on intermediate values, and call backward() of values made "
              "elsewhere outside the compiled function."),
    "RB012": ("a result whose size depends on data",
              "Use torch.where instead of a boolean index, or state facts about the size with torch._check()."),
    "RB013": ("recursion too deep to inline", "Rewrite the recursion as a loop."),
    "RB014": ("a tensor of a class that answers operators", "Pass a plain tensor."),
    "RB015": ("the memory of a tensor is accessed",
              "Use operators of tensors, or move the call out of the compiled function."),
}

DATA_DEPENDENT = frozenset(("RB002", "RB003", "RB012"))


class Break(Exception):
    """Raised within capture: the current instruction must run as Python.

    ``native``: its entire frame must; ``noted``: it is reported, since it is not the consequence of an earlier break.
    ``whole``: it is a call whose function runs unchanged, since it breaks and computes nothing on tensors.
    """

    whole = False

    def __init__(self, code: str, detail: str, native=False, noted=True):
        super().__init__(f"{code} ({REASONS[code][0]}): {detail}")
        self.code, self.detail, self.native, self.noted = code, detail, native, noted


class Again(Exception):
    """Raised within capture: restart under one more rule ("generators" run natively; sizes are "static"; "tensors as
    keys" are compared by identity, since a dict from outside has such; "warnings" are filtered natively; an instruction
    breaks)."""

    def __init__(self, rule, value=True):
        super().__init__(rule)
        self.rule, self.value = rule, value


class Raised(Exception):
    """A Python exception of the program under capture.  ``inside``: it is raised in the top frame, which was just
    pushed."""

    def __init__(self, value, inside=False):
        super().__init__(value)
        self.value, self.inside = value, inside


class CaptureError(RuntimeError):
    """``fullgraph=True`` and the function does not fit one graph; names the reason, the line and the remedy."""


class RecompileLimitError(CaptureError):
    """A function was captured as often as ``recompile_limit`` allows, and ``fail_on_recompile_limit_hit`` makes that an
    error."""


class ConstraintViolationError(RuntimeError):
    """The program fixes a size that was declared dynamic."""


class UserError(CaptureError):
    """The program cannot be exported, or captured as one graph, as requested."""


class DataDependentError(UserError):
    """``fullgraph=True`` and control flow or a value that must be known is data-dependent."""


class UnknownBackend(ValueError, RuntimeError):
    """There is no backend of this name."""


class BackendFailed(RuntimeError):
    """A user's backend raised: ``inner_exception``."""

    def __init__(self, backend, error):
        super().__init__(
            f"backend={getattr(backend, '__name__', str(backend))!r} raised:\n{type(error).__name__}: {error}")
        self.backend_name, self.inner_exception = getattr(backend, "__name__", str(backend)), error


class GraphBreak:
    """A graph break: reason, file, line, remedy."""

    def __init__(self, code, detail, file, line, function):
        self.code, self.detail, self.file, self.line, self.function = code, detail, file, line, function

    @property
    def reason(self):
        return f"{REASONS[self.code][0]}: {self.detail}"

    def error(self) -> CaptureError:
        """Return the error to raise if the function must be one graph."""
        if self.code in DATA_DEPENDENT:
            return DataDependentError("the function does not fit one graph.\n"
                                      f"Could not guard on data-dependent expression: {self}")
        return CaptureError(f"the function does not fit one graph.\n{self}")

    @property
    def remedy(self):
        return REASONS[self.code][1]

    def __str__(self):
        return f"{self.code} {self.reason}\n  at {self.file}:{self.line} in {self.function}\n  {self.remedy}"
