"""A third type of device, for these tests alone, made known as an extension makes its own."""
import sys
import types

import pytest

import rushlight as rl
from rushlight._src.core.devices import PRIVATE, Registry
from rushlight._src.core.native import Tensor
from rushlight._src.devices import testing
from rushlight.nn.utils.rnn import PackedSequence
from rushlight.storage import TypedStorage, UntypedStorage


@pytest.fixture(scope="package", autouse=True)
def fake():
    """The provider of ``fake:0`` and ``fake:1``."""
    rl.utils.rename_privateuse1_backend("fake")
    rl.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    rl._register_device_module("fake", types.ModuleType("fake"))
    before, Registry.accelerator = Registry.accelerator, None  # of tests in another directory
    provider = testing.activate()
    yield provider
    Registry.leave("fake")
    Registry.accelerator = before
    Registry.private = PRIVATE
    del rl.fake, sys.modules["rushlight.fake"]
    for owner in (Tensor, PackedSequence, UntypedStorage, TypedStorage):
        del owner.fake, owner.is_fake
    del rl.nn.Module.fake
