"""Functions that classes with ``__torch_function__`` answer in PyTorch are answered here, too: also those that are no
operators."""
import importlib
import inspect
import warnings

import pytest
import torch as judge
import torch.overrides

import rushlight as torch
from rushlight import fx


class Answered(Exception):
    pass


class Answers:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise Answered


def answered(function, parameters) -> bool:
    """Whether a function asks its arguments; False also where it refuses for want of a device or a part."""
    needed = [p for p in parameters if p.default is p.empty]
    try:
        function(*(Answers() for p in needed if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)),
                 **{p.name: Answers() for p in needed if p.kind is p.KEYWORD_ONLY})
    except Answered:
        return True
    except NotImplementedError:  # NoDeviceError and NotBuiltError are such
        return None
    except Exception:  # noqa: BLE001 - it took the object for a tensor
        return False
    return False


def test_what_classes_answer_in_torch_they_answer_here():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dummies, silent, seen = judge.overrides.get_testing_overrides(), [], 0
        for space, functions in judge.overrides.get_overridable_functions().items():
            if not inspect.ismodule(space):
                continue
            try:
                mine = importlib.import_module("rushlight" + space.__name__.removeprefix("torch"))
            except ImportError:
                continue
            for function in functions:
                name = getattr(function, "__name__", "")
                if function in dummies and hasattr(space, name) and hasattr(mine, name):
                    parameters = inspect.signature(dummies[function]).parameters.values()
                    if answered(function, parameters):
                        seen += 1
                        if answered(getattr(mine, name), parameters) is False:
                            silent.append(f"{space.__name__}.{name}")
    assert seen > 500 and not silent


class Asserts(torch.nn.Module):
    def forward(self, x):
        torch._assert(x.shape[-1] == 3, "three columns")
        torch._assert(True, "never")
        return x + torch.numel(x), torch.sym_max(x.size(0), 4), torch.is_floating_point(x)


def test_assertions_of_proxies_are_nodes():
    traced = fx.symbolic_trace(Asserts())
    names = [n.target.__name__ for n in traced.graph.nodes if n.op == "call_function" and n.target is not getattr]
    assert names == ["getitem", "eq", "_assert", "numel", "add", "sym_max", "is_floating_point"]
    assert traced(torch.ones(2, 3))[0].tolist() == [[7.0] * 3] * 2 and traced(torch.ones(5, 3))[1:] == (5, True)
    with pytest.raises(AssertionError, match="three columns"):
        traced(torch.ones(4))


def test_compiled_code_follows_them():
    step = torch.compile(Asserts(), fullgraph=True, backend="eager")
    assert step(torch.ones(2, 3))[1:] == (4, True)
