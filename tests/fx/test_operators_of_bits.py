"""Operators that ``torch.ops.aten`` has under the names of Python's methods."""
import pytest
import torch as judge

import rushlight as torch


@pytest.mark.parametrize("name", ["__and__", "__or__", "__xor__", "__lshift__", "__rshift__"])
def test_values_and_names(name):
    found = []
    for t in (judge, torch):
        packet, x, y = getattr(t.ops.aten, name), t.tensor([5, 6, 12]), t.tensor([3, 1, 2])
        found.append([packet(x, y).tolist(), packet.Tensor(x, y).tolist(), packet.Scalar(x, 2).tolist(), str(packet),
                      str(packet.Tensor)])
    assert found[0] == found[1]
