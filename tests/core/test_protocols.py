"""Tensors among Python's own protocols: copies, operators of foreign classes, sequences, pickling."""
import copy
import pickle

import pytest
import torch

import rushlight

LIBRARIES = (torch, rushlight)


class Foreign:
    """A class with reflected operators of its own."""

    def __radd__(self, other):
        return "radd"

    __rmul__ = __rsub__ = __rtruediv__ = __rfloordiv__ = __rpow__ = __rmod__ = __radd__

    def __eq__(self, other):
        return "eq"

    def __gt__(self, other):
        return "gt"

    __hash__ = None


def plain(value):
    return value.tolist() if hasattr(value, "tolist") else [plain(v) for v in value] if isinstance(
        value, (list, tuple)) else value


PROGRAMS = {
    "repeated sequences": lambda t: ([0] * t.tensor(3), (1,) * t.tensor(2), "ab" * t.tensor(2)),
    "reflected": lambda t: [t.ones(2) + Foreign(), t.ones(2) - Foreign(), t.ones(2) * Foreign(), t.ones(2) / Foreign(),
                            t.ones(2) // Foreign(), t.ones(2) ** Foreign(), t.ones(2) % Foreign()],
    "compared": lambda t: [t.ones(2) == Foreign(), t.ones(2) < Foreign(), t.ones(2) == "a", t.ones(2) != None,
                           t.ones(2) == [1, 1], t.ones(2) == object()],  # noqa: E711
    "copied": lambda t: (lambda x, y: (y.data_ptr() == x.data_ptr(), y.stride(), y.requires_grad, y.is_leaf, y.note,
                                       y.grad))(*copy_of(t)),
    "copied results": lambda t: (lambda y: (y.requires_grad, y.is_leaf))(copy.copy(t.ones(2, requires_grad=True) * 2)),
    "pickled results": lambda t: (lambda y: (y, y.requires_grad,
                                             y.is_leaf))(pickle.loads(pickle.dumps(t.ones(2, requires_grad=True) * 2))),
    "size repeated": lambda t: (repr(t.Size([1]) * 2), repr(2 * t.Size([1, 2]))),
    "byte below zero": lambda t: t.tensor(-1, dtype=t.uint8),
    "lists of lists": lambda t: t.arange(6).view(2, 3)[[[0, 1], [1, 0]]],
}


def copy_of(t):
    x = t.arange(6.0).view(2, 3).t().requires_grad_()
    x.note, x.grad = "mine", t.ones(3, 2)
    return x, copy.copy(x)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_as_in_torch(name):
    theirs, ours = (plain(PROGRAMS[name](t)) for t in LIBRARIES)
    assert ours == theirs


@pytest.mark.parametrize("error, use", [
    (TypeError, lambda t: t.ones(2) + "a"), (TypeError, lambda t: t.ones(2) * "a"),
    (TypeError, lambda t: "a" + t.ones(2)), (TypeError, lambda t: t.ones(2) - {}),
    (TypeError, lambda t: t.add(t.ones(2), "a")), (TypeError, lambda t: t.ones(2) * object()),
    (TypeError, lambda t: t.ones(2) + [1, 2]), (TypeError, lambda t: [1, 2] + t.ones(2)),
    (TypeError, lambda t: t.ones(3).__delitem__(0)), (RuntimeError, lambda t: t.tensor(object())),
    (TypeError, lambda t: t.tensor([1, "a"])), (TypeError, lambda t: t.ones(2) < None),
    (RuntimeError, lambda t: t.tensor(300, dtype=t.uint8))])
def test_errors(error, use):
    for t in LIBRARIES:
        if t is torch and use.__code__.co_names[-1] == "__delitem__":
            continue  # there del x[0] is answered by Python
        with pytest.raises(error):
            use(t)


def test_copies_share_parameters():
    weight = rushlight.nn.Parameter(rushlight.ones(2))
    other = copy.copy(weight)
    with rushlight.no_grad():
        other.add_(1)
    assert type(other) is rushlight.nn.Parameter and weight.tolist() == [2, 2]


def test_saved_results_want_gradients(tmp_path):
    for t in LIBRARIES:
        t.save(t.ones(2, requires_grad=True) * 2, tmp_path / "x")
        assert t.load(tmp_path / "x").requires_grad
