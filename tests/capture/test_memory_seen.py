"""``as_strided`` within compiled and transformed functions shows the memory that it shows in eager mode."""
import pytest

import rushlight
import torch

SEEN = {
    "argument": lambda x: x.as_strided((2, 2), (1, 2), 6) * 2,
    "argument, before its elements": lambda x: x.as_strided((2, 2), (1, 2), 2) * 2,
    "argument, by its start": lambda x: x.as_strided((2, 2), (1, 2), x.storage_offset() + 1) * 2,
    "part of an argument": lambda x: x[3:].as_strided((2, 2), (1, 2), 9) * 2,
    "part of a value": lambda x: (x * 2)[3:].as_strided((2, 2), (1, 2), 4) * 2,
    "part of a value, before its elements": lambda x: (x * 2)[3:].as_strided((2, 2), (1, 2), 2) * 2,
    "columns of an argument": lambda x: x.view(5, 3)[:, ::2].as_strided((2, 2), (2, 1)) * 2,
    "columns of a value": lambda x: (x * 2).view(5, 3)[:, ::2].as_strided((2, 2), (2, 1), 3) * 2,
    "turned value": lambda x: (x * 2).view(5, 3).t()[1:].as_strided((2, 2), (2, 1)) * 2,
    "cut value": lambda x: (x * 2)[1:].detach().as_strided((2,), (1,), 2) * x[:2],
    "written": lambda x: x[1:].as_strided((2, 2), (1, 2), 7).add_(100) * 2,
    "written before its elements": lambda x: x[1:].as_strided((2, 2), (1, 2), 2).add_(100) * 2}


def seen(function, start, wanted):
    base = rushlight.arange(24.0)
    x = base[start:start + 15]
    if wanted:
        x = x.detach().requires_grad_()
    result = function(x)
    if wanted:
        result.sum().backward()
    return result.tolist(), base.tolist(), x.grad.tolist() if wanted else None


@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize("start", (0, 5))
def test_compiled_functions_see_the_same_memory(name, start):
    for wanted in (False,) if "written" in name or "before" in name else (False, True):
        assert seen(rushlight.compile(SEEN[name]), start, wanted) == seen(SEEN[name], start, wanted)


@pytest.mark.parametrize("name", [name for name in SEEN if "before" not in name])
def test_functions_of_values_see_the_same_memory(name):
    assert seen(rushlight.func.functionalize(SEEN[name]), 5, False) == seen(SEEN[name], 5, False)


def mapped(function):
    return lambda x: rushlight.func.vmap(function)(x[None])


@pytest.mark.parametrize("transform", (rushlight.func.functionalize, mapped))
def test_what_no_value_has_is_refused(transform):
    x = rushlight.arange(24.0)[5:20]
    for size, start in ((2, 2), (16, 5)):
        with pytest.raises(RuntimeError, match="exceed the elements"):
            transform(lambda x: x.as_strided((size,), (1,), start) * 1)(x)
    assert transform(lambda x: x.as_strided((2,), (1,), x.storage_offset() + 1) * 1)(x).flatten().tolist() == [6, 7]


VIEWS = {"whole": lambda b: b, "part": lambda b: b[7:19], "columns": lambda b: b.view(4, 6)[1:, 1:5:2],
         "turned": lambda b: b.view(4, 6)[1:].t(), "repeated": lambda b: b[9:10].expand(6, 2)}
STARTS = (None, 9, 4)  # where it begins, behind, before its elements
WAYS = {"eager": lambda f: f, "compiled": rushlight.compile, "functionalized": rushlight.func.functionalize,
        "mapped": lambda f: lambda x, src: rushlight.vmap(f, (None, 0))(x, src[None])[0]}


def scattering(library, start):
    return lambda x, src: library.as_strided_scatter(x, src, (2, 2), (1, 2), start)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("way", WAYS)
def test_scatters_write_the_memory_that_as_strided_shows(view, start, way):
    x, src = VIEWS[view](torch.arange(24.0)), -torch.ones(2, 2)
    try:
        expected = scattering(torch, start)(x, src)
    except RuntimeError:
        expected = None
    x, src = VIEWS[view](rushlight.arange(24.0)).requires_grad_(), (-rushlight.ones(2, 2)).requires_grad_()
    if expected is None:
        with pytest.raises(RuntimeError, match="out of bounds"):
            WAYS[way](scattering(rushlight, start))(x, src)
        return
    found = WAYS[way](scattering(rushlight, start))(x, src)
    assert found.tolist() == expected.tolist()
    own, other = rushlight.autograd.grad((found * found).sum(), (x, src))
    assert rushlight.equal(own, rushlight.where(found < 0, 0, 2 * x))  # PyTorch's misses elements
    assert other.sum() == -2 * (found < 0).sum()


WRITTEN = {"selected": lambda x: x.as_strided((2,), (1,))[1].mul_(2),
           "selected, before a step": lambda x: x.as_strided((2, 2), (5, 1), x.storage_offset() + 3)[:, 0].add_(9),
           "of a part": lambda x: x[1:].as_strided((3,), (2,)).neg_(),
           "after a write": lambda x: (x.mul_(3), x.as_strided((4,), (2,)).add_(1)),
           "of a computed value": lambda x: (x * 2).as_strided((4,), (2,)).add_(1)}
LAYOUTS = {"transposed": lambda b: b.view(4, 6).t(), "part, transposed": lambda b: b[4:].view(4, 5).t(),
           "columns": lambda b: b.view(4, 6)[:, 1:4], "repeated": lambda b: b[3:9].expand(4, 6),
           "windows": lambda b: b.as_strided((4, 5), (2, 1), 3)}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", WRITTEN)
def test_writes_reach_arguments_that_are_not_contiguous(layout, name):
    def function(x):
        view = x.as_strided((6,), (2,))
        return WRITTEN[name](x), view * 1, x * 1

    if layout in ("repeated", "windows") and name == "after a write":
        pytest.skip("refused: elements share memory")
    found = []
    for library, way in ((torch, lambda f: f), (rushlight, lambda f: f), (rushlight, rushlight.compile)):
        base = library.arange(24.0)
        _, view, x = way(function)(LAYOUTS[layout](base))
        found.append((view.tolist(), x.tolist(), base.tolist()))
    assert found[0] == found[1] == found[2]
