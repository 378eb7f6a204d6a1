"""How results and limits print, beside PyTorch."""
import importlib

import pytest
import torch

import rushlight as rl


def both(text):
    return [repr(eval(text, {"t": library})) for library in (rl, torch)]


@pytest.mark.parametrize("text", ["t.ones(2, 2).max(0)", "t.tensor([3.0, 1.0]).sort()", "t.aminmax(t.ones(2))",
                                  "t.frexp(t.ones(1))"])
def test_named_results_print_a_field_a_line(text):
    ours, theirs = both(text)
    assert ours == theirs


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e5m2", "float8_e4m3fn"])
def test_limits_of_floats_print_six_digits(dtype):
    ours, theirs = both(f"t.finfo(t.{dtype})")
    assert ours == theirs


def test_classes_of_users_say_their_names():
    for t in (torch, rl):
        Mine = type("Mine", (t.Tensor,), {})
        assert repr(t.ones(2).as_subclass(Mine)) == "Mine([1., 1.])" and repr(t.ones(2).as_subclass(Mine)
                                                                              * 2) == "Mine([2., 2.])"


def test_steps_are_of_classes_with_their_names():
    for t in (torch, rl):
        x = t.ones(2, requires_grad=True)
        y = x * 2
        assert type(y.grad_fn).__name__ == "MulBackward0" and type(y.grad_fn.next_functions[0][
            0]).__name__ == "AccumulateGrad"
        assert isinstance(y.grad_fn, t.autograd.graph.Node) and y.grad_fn == y.grad_fn


@pytest.mark.parametrize("name", ["svd", "qr", "eigh", "inv_ex", "lu"])
def test_results_of_linalg_say_their_names(name):
    theirs, ours = (repr(getattr(t.linalg, name)(t.eye(2))).partition("(")[0] for t in (torch, rl))
    assert ours == theirs


def test_blocks_of_sparse_tensors():
    for t in (torch, rl):
        assert " \n" not in repr(t.eye(4).to_sparse_bsr((2, 2)))


@pytest.mark.parametrize("options", [dict(precision=2), dict(sci_mode=True, precision=1), dict(linewidth=20),
                                     dict(edgeitems=1, threshold=2), dict(profile="short")])
def test_options_within_a_block(options):
    found = []
    for lib in (rl, torch):
        texts = importlib.import_module(f"{lib.__name__}._tensor_str")
        x, before = lib.arange(7.0) / 3, texts.get_printoptions()
        with pytest.raises(KeyError), texts.printoptions(**options):
            inside, text = texts.get_printoptions(), repr(x)
            raise KeyError
        assert texts.get_printoptions() == before
        found.append((inside, text, repr(x), texts._str(x, tensor_contents="a"),
                      texts._add_suffixes("f([1.]", ["size=(2, 3)", "nnz=4"], 2, True)))
    assert found[0] == found[1]
