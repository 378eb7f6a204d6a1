"""Autocast on devices beside torch's, whose tensors of such devices have no data: dtypes by each list."""
import logging

import pytest

import rushlight as rl
from rushlight._src.core.precisions import OWN
from rushlight._src.core.settings import settings

from ..amp.lists import CALLS, OPERANDS

torch = pytest.importorskip("torch")


def theirs(name, kind, dtypes):
    """The dtype of PyTorch's result; None where it has none for such tensors."""
    from torch._subclasses import FakeTensor, FakeTensorMode
    torch.set_autocast_dtype(kind, torch.float16)
    torch.set_autocast_enabled(kind, True)
    logging.disable(logging.ERROR)
    try:
        with FakeTensorMode() as mode:
            x, y = (FakeTensor(mode, torch.empty(4, 4, device="meta", dtype=getattr(torch, d)), torch.device(kind))
                    for d in dtypes)
            return str(CALLS[name](torch, torch.nn.functional, x, y).dtype)
    except Exception:  # noqa: BLE001 - there are no rules for some calls without data
        return None
    finally:
        logging.disable(logging.NOTSET)
        torch.set_autocast_enabled(kind, False)


def ours(name, where, dtypes):
    with settings.set(kernels=False, store=False), rl.autocast(where, dtype=rl.float16):
        x, y = (rl.ones(4, 4, dtype=getattr(rl, d)).to(where) for d in dtypes)
        return str(CALLS[name](rl, rl.nn.functional, x, y).dtype)


@pytest.mark.parametrize("name", CALLS)
def test_lists_are_pytorchs(fake, monkeypatch, name):
    monkeypatch.setattr(fake, "autocast", "cuda")
    for dtypes in OPERANDS.values():
        wanted = theirs(name, "cuda", dtypes)
        if wanted is not None:
            assert ours(name, "fake", dtypes) == wanted, dtypes


@pytest.mark.parametrize("kind,name", [(kind, name) for kind in OWN for name in ("rms_norm", "exp", "vecdot", "add")])
def test_a_device_names_its_list(fake, monkeypatch, kind, name):
    monkeypatch.setattr(fake, "autocast", kind)
    assert ours(name, "fake", OPERANDS["half"]) == theirs(name, kind, OPERANDS["half"])


def test_what_is_unsafe_is_refused(fake):
    x = rl.full((4, 4), 0.5).to("fake")
    with rl.autocast("fake"), pytest.raises(RuntimeError, match="unsafe under autocast"):
        rl.nn.functional.binary_cross_entropy(x, x)
    with rl.autocast("cpu"):
        assert rl.nn.functional.binary_cross_entropy(x, x).item() == pytest.approx(0.6931, abs=1e-3)


def test_the_processor_keeps_its_own_list():
    for name, dtype in (("exp", "float16"), ("softmax", "float16"), ("vecdot", "float16"), ("prod", "float32")):
        assert ours(name, "cpu", OPERANDS["half"]) == f"torch.{dtype}"


@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"inner", "tensordot"}))  # PyTorch's are as they are contracted
def test_the_processors_list_is_pytorchs(name):
    with torch.autocast("cpu", dtype=torch.float16):
        wanted = CALLS[name](torch, torch.nn.functional, torch.ones(4, 4), torch.ones(4, 4))
    assert ours(name, "cpu", OPERANDS["float"]) == str(wanted.dtype)
