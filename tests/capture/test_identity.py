"""Which objects are the same, and of which class, in compiled functions."""
import pytest

import rushlight as torch

OWN = torch.zeros(3)


def in_a_set(a, b, c):
    return a * 0 + len({OWN, a, b, c})


def in_a_dict(a, b, c):
    found = {a: 1, b: 2}
    found[c] = 4
    return a * 0 + sum(found.values())


def known(a, b, c):
    return a * 0 + (a in {b, c}) + 2 * (b in {c: 1})


@pytest.mark.parametrize("function", [in_a_set, in_a_dict, known])
def test_tensors_as_keys(function):
    x, y, z = torch.ones(3), torch.ones(3), torch.ones(3)
    compiled = torch.compile(function, fullgraph=True)
    for given in [(x, y, z), (y, x, z), (x, x, x), (x, y, x), (z, y, y), (OWN, OWN, OWN), (x, OWN, y), (x, y, z)]:
        torch.testing.assert_close(compiled(*given), function(*given))
    assert compiled.owner.stats.segments <= 8


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool])
def test_types_of_tensors_by_dtype(dtype):
    def f(x):
        made = torch.empty(2, dtype=dtype)
        kinds = torch.FloatTensor, torch.DoubleTensor, torch.BFloat16Tensor, torch.LongTensor, torch.BoolTensor
        return [isinstance(made, kind) for kind in kinds], isinstance(x, kinds), isinstance(made, (str, kinds[:2])), x

    x = torch.ones(1)
    assert torch.compile(f)(x)[:3] == f(x)[:3]


class Text(str):
    """A text with a class of its own, as versions are."""


def test_older_forms_and_texts_of_classes():
    import numpy as np
    from packaging import version

    def f(x, n):
        later = version.parse(Text("2.13.0")) >= version.parse("2.0.0")
        return x + np.issubdtype(type(n), np.integer) + later

    assert torch.compile(f, fullgraph=True)(torch.zeros(1), 4).tolist() == [2]
