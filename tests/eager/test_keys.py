"""Keys tell values by type and bits: what is equal but not the same shares no plan, and what is no int is no size."""
import itertools
import math
import sys

import pytest
import torch as judge

import rushlight as torch
from rushlight._src.core.dtypes import dtype
from rushlight._src.core.devices import device
from rushlight._src.core.meta import Meta, Size
from rushlight._src.core.native import keys
from rushlight._src.core.op import OPS
from tests.ops.test_samples import SAMPLED, arguments, build

VALUES = [0, 1, 2, True, False, 0.0, -0.0, 1.0, 2.0, math.nan, -math.nan, math.inf, complex(0, 0), complex(0, -0.0),
          complex(-0.0, 0), complex(1, 0), "1", "0.0", None, torch.float32,
          (), (1,), (True,), (1.0,), (0.0,), (-0.0,), (0.0, (1, True)), (0.0, (1, 1))]


def test_values_share_a_key_if_they_are_of_one_type_and_the_same_bits():
    for a, b in itertools.product(VALUES, repeat=2):
        assert (keys.exact(a) == keys.exact(b)) == (type(a) is type(b) and repr(a) == repr(b)), (a, b)
        hash(keys.exact(a))
    assert keys.exact([1, -0.0]) == keys.exact((1, -0.0))  # lists and tuples mean the same


def bare(part):
    """The values in a part of a key that equal values of other types."""
    if type(part) is tuple:
        named = len(part) == 2 and isinstance(part[0], type) and part[0] is not int and (type(part[1]) is part[0]
                                                                                         or isinstance(part[1], str))
        return [] if named else [value for p in part for value in bare(p)]
    return [] if isinstance(part, (int, str, type(None), type, Meta, Size, dtype,
                                   device)) and type(part) is not bool else [part]


def test_no_operator_has_a_plan_whose_key_is_vague():
    for name, index in SAMPLED:
        sample = OPS[name].traits["samples"][index]
        if any(isinstance(v, (bool, float, complex)) for v in (*sample.args, *sample.kwargs.values())):
            OPS[name](*(build(torch, v, torch.tensor) for v in arguments(name, sample)), **sample.kwargs)
    keys = [(name, key) for name, op in OPS.items() for key in list(op.plans)]
    assert len(keys) > 50
    found = {name: bad for name, key in keys if (bad := [v for part in key[:-2] for v in bare(part)])}
    assert not found


ZEROS = {
    "clamp": lambda t, x, k: 1 / t.clamp(x, min=k),
    "clamp positional": lambda t, x, k: 1 / t.clamp(x, k),
    "full": lambda t, x, k: 1 / t.full((2,), k),
    "where": lambda t, x, k: 1 / t.where(x > 5, x, k),
    "masked_fill": lambda t, x, k: 1 / x.masked_fill(x < 0, k),
    "copysign": lambda t, x, k: t.copysign(x, k),
    "threshold": lambda t, x, k: 1 / t.nn.functional.threshold(x, 5.0, k),
    "pad": lambda t, x, k: 1 / t.nn.functional.pad(x, (1, 1), value=k),
    "hardtanh": lambda t, x, k: 1 / t.nn.functional.hardtanh(x, k, 1.0),
    "nan_to_num": lambda t, x, k: 1 / t.nan_to_num(x * float("nan"), k),
    "fill_": lambda t, x, k: 1 / x.clone().fill_(k),
    "tensor": lambda t, x, k: 1 / t.tensor([k, 1.0]),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ZEROS)
def test_the_sign_of_zero_counts(name, compiled):
    def results(t, function):
        x = t.tensor([-1.0, 2.0])
        return [function(t, x, k).tolist() for k in (0.0, -0.0, 0.0, 0, -0.0)]

    function = ZEROS[name]
    ours = torch.compile(lambda x, k: function(torch, x, k)) if compiled else None
    assert results(torch, (lambda t, x, k: ours(x, k)) if compiled else function) == results(judge, function)


def test_numbers_that_are_nan_share_plans():
    x = torch.ones(3)
    for _ in range(3):
        assert torch.clamp(x, min=float("nan")).isnan().all()
    before = len(OPS["clamp"].plans)
    torch.clamp(x, min=float("nan"))
    assert len(OPS["clamp"].plans) == before


NO_SIZES = {
    "expand": lambda t: t.ones(7).expand(True, 7),
    "view": lambda t: t.ones(8).view(True, 8),
    "reshape": lambda t: t.ones(8).reshape((True, 8)),
    "ones": lambda t: t.ones([True, 7]),
    "sum": lambda t: t.ones(2, 3).sum(True),
    "sum of several": lambda t: t.ones(2, 3).sum((True, 0)),
    "softmax": lambda t: t.ones(2, 3).softmax(True),
    "cat": lambda t: t.cat([t.ones(2, 3)] * 2, True),
    "select": lambda t: t.ones(2, 3).select(True, 0),
    "unsqueeze": lambda t: t.ones(2, 3).unsqueeze(dim=True),
    "as_strided": lambda t: t.ones(7).as_strided((True, 2), (1, 1)),
}


@pytest.mark.parametrize("name", NO_SIZES)
def test_a_bool_is_no_size_and_no_dimension(name):
    for library in (judge, torch):
        with pytest.raises(TypeError):
            NO_SIZES[name](library)


def test_sizes_are_ints_whatever_asked_for_them():
    metas = [Meta((True, 19), (19, True), torch.float32), Meta.of((1, 19), torch.float32)]
    assert metas[0] is metas[1]
    assert [type(n) for n in (*metas[0].shape, *metas[0].strides, metas[0].numel)] == [int] * 5
    assert [type(n) for n in (*torch.ones(19)[True].shape,
                              *torch.ones(23).view(torch.Size([True, 23])).shape)] == [int] * 4


def test_an_interrupt_leaves_no_meta_behind_that_lacks_something():
    lines = []

    def trace(frame, event, arg):
        if frame.f_code.co_filename.endswith("core/meta.py") and frame.f_code.co_name in ("__new__", "made"):
            def within(frame, event, arg):
                if event == "line":
                    lines.append(frame.f_lineno)
                    if len(lines) == stop:
                        raise KeyboardInterrupt
                return within
            return within
        return None

    for stop in range(1, 40):
        lines.clear()
        size = 10007 + stop
        sys.settrace(trace)
        try:
            Meta.of((size, 3), torch.float32)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        made = Meta.of((size, 3), torch.float32)
        assert all(hasattr(made, name) for name in Meta.__slots__) and made.numel == 3 * size
        if len(lines) < stop:
            break
    assert 5 < stop < 39
