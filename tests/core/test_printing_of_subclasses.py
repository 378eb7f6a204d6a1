"""What subclasses say of themselves: ``tensor_contents`` stands for the elements, the rest is told as of any tensor."""
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def wrapper(package):
    """A class without memory, whose text is that of the tensor it holds."""
    class Held(package.Tensor):
        @staticmethod
        def __new__(cls, held, wants=False):
            made = package.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype, requires_grad=wants)
            made.held = held
            return made

        def __repr__(self):
            return super().__repr__(tensor_contents=f"held={self.held}")

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            result = function(*(a.held if isinstance(a, cls) else a for a in args), **(kwargs or {}))
            return cls(result) if isinstance(result, package.Tensor) else result

    return Held


@pytest.mark.parametrize("shape,dtype,wants", [((3,), "float32", False), ((2,), "float64", True),
                                               ((2, 2), "int32", False), ((0, 2), "float32", False)])
def test_contents_of_a_class_without_memory(shape, dtype, wants):
    texts = {repr(wrapper(package)(package.ones(shape, dtype=getattr(package, dtype)), wants))
             for package in (rl, torch)}
    assert len(texts) == 1


def test_parameter_that_keeps_its_class():
    texts = {repr(package.nn.Parameter(wrapper(package)(package.ones(2)))) for package in (rl, torch)}
    assert len(texts) == 1


@pytest.mark.parametrize("shape,dtype,device", [((2,), "float32", "cpu"), ((0, 2), "float32", "cpu"),
                                                ((2,), "float16", "cpu"), ((2,), "float32", "meta")])
def test_contents_in_place_of_elements(shape, dtype, device):
    texts = {package.zeros(shape, dtype=getattr(package, dtype), device=device).__repr__(tensor_contents="c")
             for package in (rl, torch)}
    assert len(texts) == 1


def test_an_instance_in_the_making_asks_nothing_of_its_class():
    def made(package):
        class Noted(package.Tensor):
            __slots__ = ["noted"]

            def __new__(cls, data):
                instance = package.Tensor._make_subclass(cls, data, data.requires_grad)
                instance.noted = []
                return instance

            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                args[0].noted.append(function.__name__)
                return super().__torch_function__(function, types, args, kwargs or {})

        instance = Noted(package.ones(2, requires_grad=True))
        return list(instance.noted), instance.requires_grad

    assert made(rl) == made(torch) == ([], True)
