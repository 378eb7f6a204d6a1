"""Arguments by parameter: as inspect finds them, and its complaints."""
import pytest

import rushlight as torch
from rushlight._src.core.op import OPS, bind

CALLS = [("add", (1, 2), {}), ("add", (1,), {"other": 2}), ("add", (1, 2), {"alpha": 3}), ("softmax", (1, 0), {}),
         ("softmax", (), {"input": 1, "dim": 0}),
         ("prims.sum", (1,), {"dims": (0,)}), ("cumsum", (1,), {"dim": 0})]


@pytest.mark.parametrize("name, args, kwargs", CALLS)
def test_arguments_are_found_as_inspect_finds_them(name, args, kwargs):
    bound = OPS[name].signature.bind(*args, **kwargs)
    bound.apply_defaults()
    assert list(bind(OPS[name], args, kwargs).items()) == list(bound.arguments.items())


@pytest.mark.parametrize("args, kwargs", [((), {}), ((1, 2, 3, 4, 5, 6), {}), ((1,), {"input": 1, "other": 2}),
                                          ((1,), {"nothing": 2}), ((1,), {})])
def test_what_does_not_fit_is_refused(args, kwargs):
    with pytest.raises(TypeError, match="add"):
        bind(OPS["add"], args, kwargs)


def test_tensors_are_not_compared():
    x = torch.ones(2, 2)
    assert bind(OPS["add"], (x, x), {})["other"] is x
