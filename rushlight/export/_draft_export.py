"""``draft_export``: an export that continues when sizes are not as dynamic as declared, and reports it."""
from __future__ import annotations

import dataclasses
import enum

from .._src.capture.errors import UserError
from .._src.core.later import later
from .arguments import ShapesCollection
from .exported_program import ExportedProgram


class FailureType(enum.IntEnum):
    """Reason why ``export`` would reject the result of ``draft_export``, or miscompile it.  Only GUARD_ADDED occurs
    here: data-dependent programs, and operators without a fake implementation, are rejected."""

    MISSING_FAKE_KERNEL, DATA_DEPENDENT_ERROR, GUARD_ADDED, MISMATCHED_FAKE_KERNEL = 1, 2, 3, 4

    def __str__(self):
        return self.name


@dataclasses.dataclass
class FailureReport:
    """One failure: ``data`` has its text as "expr"."""

    failure_type: FailureType
    data: dict
    xfail: bool = False

    def print(self, str_to_filename) -> str:
        return f"{str(self.failure_type).replace('_', ' ').capitalize()}: {self.data['expr']}\n"


class DraftExportReport:
    """What ``draft_export`` found: ``failures``, and whether ``export`` would have taken the program."""

    def __init__(self, failures, str_to_filename, expressions_created, op_profiles):
        self.failures, self.str_to_filename = failures, str_to_filename
        self.expressions_created, self.op_profiles = expressions_created, op_profiles

    def successful(self) -> bool:
        return all(failure.xfail for failure in self.failures)

    def __repr__(self):
        return f"DraftExportReport({self.failures})"

    def __str__(self):
        if self.successful():
            return "No issues were found: export() gives the same program."
        told = "".join(f"{k + 1}. {one.print(self.str_to_filename)}" for k, one in enumerate(self.failures))
        return f"{len(self.failures)} issue(s) found during export:\n{told}"


def draft_export(mod, args, kwargs=None, *, dynamic_shapes=None, preserve_module_call_signature=(), strict=False,
                 pre_dispatch=True, prefer_deferred_runtime_asserts_over_guards=False) -> ExportedProgram:
    """As ``export``, but a size that is said to vary and has one value in the program gets that value, and what the
    program assumes of sizes is checked when it is called.  The program's ``_report`` says which.

    CaptureError, as from ``export``, for data-dependent control flow.

    >>> import rushlight as torch
    >>> class Net(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.reshape(2, 3)
    >>> size = torch.export.Dim("size", min=2, max=4)
    >>> program = torch.export.draft_export(Net(), (torch.ones(3, 2),), dynamic_shapes={"x": {0: size}})
    >>> program._report.successful(), program._report.failures[0].failure_type
    (False, <FailureType.GUARD_ADDED: 3>)
    """
    from . import Exporting, check_call
    check_call(mod, args)
    if isinstance(dynamic_shapes, ShapesCollection):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
    one_size, failures = [], []
    while True:
        try:
            found = Exporting(mod, args, dict(kwargs or {}), dynamic_shapes, preserve_module_call_signature, True,
                              one_size)
            break
        except UserError as error:
            if getattr(error, "place", None) is None:
                raise
            one_size.append(error.place)
            failures.append(added(error))
    try:
        found.check()
    except UserError as error:
        failures.append(added(error))
    program = found.program()
    program._report = DraftExportReport(failures, {}, {}, {})
    return program


def added(error) -> FailureReport:
    """Return a failure for guards that the declared dynamic shapes do not imply."""
    return FailureReport(FailureType.GUARD_ADDED, {"expr": str(error)})


__getattr__ = later(__name__)
