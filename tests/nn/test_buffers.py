"""Buffers keep the class of their tensor, and classes answer what takes a tensor's place in loading, beside PyTorch."""
import copy
import pickle

import pytest
import torch as judge

import rushlight as torch

BOTH = judge, torch


@pytest.mark.parametrize("t", BOTH, ids=["torch", "rushlight"])
def test_a_buffer_is_a_marked_tensor(t):
    class Own(t.Tensor):
        pass

    made, own = t.nn.Buffer(t.ones(2), persistent=False), t.nn.Buffer(t.ones(2).as_subclass(Own))
    assert type(made) is t.Tensor and type(own) is Own
    assert isinstance(made, t.nn.Buffer) and isinstance(own, t.nn.Buffer) and not isinstance(t.ones(2), t.nn.Buffer)
    assert not isinstance(made, t.nn.Parameter) and not made.requires_grad
    module = t.nn.Module()
    module.first, module.second = made, own
    assert module.first is made and dict(module.named_buffers()).keys() == {"first", "second"}
    assert list(module.state_dict()) == ["second"]
    assert isinstance(copy.deepcopy(made), t.nn.Buffer)
    assert pickle.loads(pickle.dumps(made)).persistent is False


@pytest.mark.parametrize("t", BOTH, ids=["torch", "rushlight"])
@pytest.mark.parametrize("assign", [True, False])
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("given", [True, False])
def test_classes_answer_what_takes_a_place(t, assign, own, given):
    asked = []

    class Answering(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is t.Tensor.module_load:
                asked.append(cls)
                dest, src = args
                if kwargs["assign"] or type(src) is type(dest):
                    return src.detach()
                with t._C.DisableTorchFunctionSubclass():
                    return cls(src) if isinstance(dest, cls) else t.Tensor(src)
            return super().__torch_function__(func, types, args, kwargs or {})

    def made(special):
        module = t.nn.Module()
        module.scale = t.nn.Buffer(t.rand(3).as_subclass(Answering) if special else t.rand(3))
        return module

    module, source = made(own), made(given).state_dict()
    t.__future__.set_swap_module_params_on_conversion(True)
    try:
        module.load_state_dict(source, assign=assign)
    finally:
        t.__future__.set_swap_module_params_on_conversion(False)
    assert bool(asked) == (own or given)
    assert type(module.scale) is (Answering if (given if assign else own) else t.Tensor)
    assert module.scale.tolist() == source["scale"].tolist()


@pytest.mark.parametrize("t", BOTH, ids=["torch", "rushlight"])
def test_the_inverse_of_a_transform_has_its_class(t):
    transforms = t.distributions.transforms
    assert isinstance(transforms.ExpTransform().inv, transforms._InverseTransform)
