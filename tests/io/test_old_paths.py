"""Files that were pickled when the implementation lay at other paths."""
import pickle

import pytest

import rushlight as rl

NAMES = {"core.dtypes": "float32 int64 bfloat16 bool_", "core.meta": "Size", "core.devices": "device",
         "core.random": "Generator"}


@pytest.mark.parametrize("module,name", [(module, name) for module, names in NAMES.items() for name in names.split()])
def test_names_of_former_modules_are_found(module, name):
    assert pickle.loads(f"crushlight.{module}\n{name}\n.".encode()) is getattr(rl, name.rstrip("_"))


def test_a_tensor_of_a_former_pickle():
    now = pickle.dumps(rl.arange(6.0).reshape(2, 3), 2)
    former = now.replace(b"crushlight._src.core.", b"crushlight.core.")
    assert former != now and rl.equal(pickle.loads(former), rl.arange(6.0).reshape(2, 3))
