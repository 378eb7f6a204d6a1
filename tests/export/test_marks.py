"""Decorators of constructors of tensor subclasses, beside PyTorch's."""
import importlib

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402


@pytest.mark.parametrize("lib", [rushlight, torch], ids=["rushlight", "torch"])
def test_only_constructors_are_marked_for_export(lib):
    mark = importlib.import_module(f"{lib.__name__}._export.wrappers").mark_subclass_constructor_exportable_experimental

    class Scaled(lib.Tensor):
        @staticmethod
        def __new__(cls, elements, scale):
            return lib.Tensor._make_subclass(cls, elements)

        @mark
        def __init__(self, elements, scale):
            self.scale = scale

    made = Scaled(lib.ones(2), 3)
    assert type(made) is Scaled and made.scale == 3 and made.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="can only be applied on subclass tensor.__init__"):
        mark(lambda self: None)
