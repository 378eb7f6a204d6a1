"""Every small program of ``features``: the same result, errors, prints and changes compiled as plain, in as many graphs
as it says."""
import contextlib
import io
import warnings

import pytest

import rushlight as torch

from .compare import shown
from .features import (breaks, classes, containers, control, data, errors, functions, generators, leaves, library,
                       managers, networks, objects, output, records, tensors, texts)  # noqa: F401  (they fill the table)
from .features.table import CASES


def run(function, given):
    """What one call gives or raises, prints, warns of, and leaves of its arguments and their gradients."""
    x, text = torch.arange(4.0) - 1.5, io.StringIO()
    with contextlib.redirect_stdout(text), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = function(x, *given)
            outcome = "returned", shown(result)
            if isinstance(result, torch.Tensor) and result.requires_grad and result.dim() == 0:
                result.backward()
        except Exception as error:
            outcome = "raised", type(error).__name__, str(error)
    return {"outcome": outcome, "printed": text.getvalue(), "arguments": shown((x, *given)),
            "warned": [(str(w.message), w.category.__name__, w.filename, w.lineno) for w in warned]}


@pytest.mark.parametrize("name", CASES)
def test_feature(name):
    case = CASES[name]
    plain, mine = case.given(), case.given()
    compiled = torch.compile(case.function, backend="eager")
    graphs = breaks_found = None
    for _ in range(2):
        torch.manual_seed(1)
        wanted = run(case.function, plain)
        torch.manual_seed(1)
        got = run(compiled, mine)
        stats = compiled.owner.stats
        if graphs is None:
            graphs, breaks_found = len(stats.graphs), list(stats.breaks)
        assert got == wanted, "\n".join(["", f"plain    {wanted}", f"compiled {got}", *map(str, stats.breaks)])
    assert {b.code for b in breaks_found} == set(case.breaks), "\n".join(map(str, breaks_found))
    assert graphs <= case.graphs


def test_there_are_enough():
    assert len(CASES) >= 300
