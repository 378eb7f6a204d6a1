"""What blocks of the autograd system refuse."""
import pytest

import rushlight as torch
import rushlight.autograd.forward_ad as forward_ad
from rushlight.autograd.graph import disable_saved_tensors_hooks, saved_tensors_hooks


def test_hooks_that_are_there_are_not_switched_off():
    with saved_tensors_hooks(lambda x: x, lambda x: x):
        with pytest.raises(RuntimeError, match="not here"):
            with disable_saved_tensors_hooks("not here"):
                pass
        x = torch.ones(2, requires_grad=True)
        (x * x).sum().backward()  # the hooks are as they were
    with disable_saved_tensors_hooks("outer"), disable_saved_tensors_hooks("inner"):
        with pytest.raises(RuntimeError, match="inner"):
            saved_tensors_hooks(lambda x: x, lambda x: x).__enter__()


def test_a_tangent_carries_none_of_its_own():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        with pytest.raises(RuntimeError, match="has a forward gradient at the same level"):
            forward_ad.make_dual(torch.ones(2), dual)
        assert forward_ad.make_dual(torch.ones(2), forward_ad.unpack_dual(dual).tangent) is not None
