"""Packages are called as the exported program is, and give what it gives: names, nesting, sizes and constants."""
import collections

import pytest

import rushlight as torch

nn = torch.nn


def module(body):
    class Model(nn.Module):
        forward = body
    return Model()


def opened(path, body, args, kwargs=None, shapes=None):
    """(an exported program as a module, its package)."""
    program = torch.export.export(module(body), args, kwargs, dynamic_shapes=shapes)
    torch._inductor.aoti_compile_and_package(program, package_path=str(path / "model.pt2"))
    return program.module(), torch._inductor.aoti_load_package(path / "model.pt2")


def told(tree):
    return torch.utils._pytree.tree_map(lambda leaf: leaf.tolist() if isinstance(leaf, torch.Tensor) else leaf, tree)


def test_keywords_are_taken_by_name(tmp_path):
    def body(self, x, *, y, z):
        return x + 10 * y + 100 * z

    x, y, z = (torch.full((2,), k) for k in (1.0, 2.0, 3.0))
    _, loaded = opened(tmp_path, body, (x,), {"y": y, "z": z})
    for found in (loaded(x, z=z, y=y), loaded(x, y=y, z=z), loaded(z=z, x=x, y=y)):
        assert found.tolist() == [321.0, 321.0]
    for wrong in ({"y": y}, {"y": y, "z": z, "w": z}, {"y": y, "w": z}, {"y": y, "z": z, "x": x}, {"y": y, "z": 3}):
        with pytest.raises(TypeError):
            loaded(x, **wrong)
    for args in ((x, y, z), (x, z, y), (x, y)):  # which of them is y and which z, nothing says
        with pytest.raises(TypeError, match="by position"):
            loaded(*args)


def test_wrong_names_are_told(tmp_path):
    _, loaded = opened(tmp_path, lambda self, x, y: x + y, (torch.ones(2), torch.ones(2)))
    x = torch.ones(2)
    for args, kwargs, text in (((x,), {}, "misses the argument y"), ((), {}, "misses the arguments x, y"),
                               ((x, x), {"x": x}, "got multiple values for argument x"),
                               ((x,), {"y": x, "z": x}, "has no argument z"),
                               ((x, x, x), {}, "takes 2 arguments by position, but 3 were given")):
        with pytest.raises(TypeError, match=text):
            loaded(*args, **kwargs)


def test_results_that_are_one_tensor_are_one_output(tmp_path):
    def body(self, x):
        ok, y = x.sum() > 0, x * 2
        torch._assert_async(ok)
        torch._assert_async(ok)
        return ok, y, {"y": y, "x": x}, x, ok

    program, loaded = opened(tmp_path, body, (torch.ones(2),))
    assert told(loaded(torch.ones(2))) == told(program(torch.ones(2)))
    assert len(loaded.outputs) < 6
    with pytest.raises(RuntimeError, match="nonzero"):
        loaded(-torch.ones(2))


def test_nested_arguments_are_taken_by_key_and_constants_compared(tmp_path):
    def body(self, pair, scale):
        return pair["a"] - pair["b"] * scale

    a, b = torch.ones(2), torch.full((2,), 5.0)
    _, loaded = opened(tmp_path, body, ({"a": a, "b": b}, 3))
    assert loaded({"b": b, "a": a}, 3).tolist() == loaded({"a": a, "b": b}, scale=3).tolist() == [-14.0, -14.0]
    with pytest.raises(ValueError, match="3 only"):
        loaded({"a": a, "b": b}, 4)
    for wrong in (({"a": a, "c": b}, 3), ([a, b], 3), ({"a": a}, 3)):
        with pytest.raises(TypeError):
            loaded(*wrong)


RESULTS = {"size": lambda self, x: (x * 2, x.shape[0]),
           "constants": lambda self, x: [7, x * 2, None, "text", 2.5, True],
           "formulas": lambda self, x: {"a": x * 2, "b": (x.shape[0] * x.shape[0] + 1, [x.shape[0] // 2]),
                                        "c": x.shape[0] % 3, "d": x.shape[1]},
           "ordered": lambda self, x: collections.OrderedDict(b=x + 1, a=[x.sum(), (x * 2,)]),
           "one": lambda self, x: (x + 1,),
           "pair": lambda self, x: (x + 1, x * 2),
           "list": lambda self, x: [x + 1, x * 2]}


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("low", [None, 1, 2])
def test_results_are_those_of_the_exported_program(name, low, tmp_path):
    shapes = low and ({0: torch.export.Dim("batch", min=low, max=9)},)
    exported, loaded = opened(tmp_path, RESULTS[name], (torch.ones(4, 2),), shapes=shapes)
    for rows in (4, low, 7) if low else (4,):
        x = torch.arange(rows * 2.0).reshape(rows, 2)
        for _ in range(2):
            wanted, found = exported(x), loaded(x)
            assert type(found) is type(wanted) and told(found) == told(wanted)


@pytest.mark.parametrize("result", [lambda x: x.shape[0] / 2, lambda x: x.dtype, lambda x: float("inf")])
def test_results_that_native_code_cannot_give_need_python(result, tmp_path):
    shapes = ({0: torch.export.Dim("batch", min=2, max=9)},)
    exported, loaded = opened(tmp_path, lambda self, x: (x * 2, result(x)), (torch.ones(4, 2),), shapes=shapes)
    for rows in (4, 7):
        x = torch.arange(rows * 2.0).reshape(rows, 2)
        assert told(loaded(x)) == told(exported(x))


@pytest.mark.parametrize("decomposed", [False, True])
def test_inputs_that_are_written_into(decomposed, tmp_path):
    def body(self, x):
        x.add_(1)
        self.x.add_(5)
        return x * self.x

    model = module(body)
    model.register_buffer("x", torch.ones(2))  # named like the input
    program = torch.export.export(model, (torch.ones(2),))
    program = program.run_decompositions() if decomposed else program
    torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    x, loaded = torch.ones(2), torch._inductor.aoti_load_package(tmp_path / "model.pt2")
    assert loaded(x).tolist() == [12.0, 12.0] and x.tolist() == [2.0, 2.0]
    assert loaded(x).tolist() == [33.0, 33.0] and x.tolist() == [3.0, 3.0]
