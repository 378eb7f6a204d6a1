"""Attention calls whose plan is complete: the second one is computed by the same kernel as the first."""
import pytest

import rushlight as rl
from rushlight._src.ops import attention


@pytest.mark.parametrize("kernel", ["own", "vendor"])
def test_later_calls_have_the_kernel_of_the_first(monkeypatch, kernel):
    given, compute = [], attention.flash
    monkeypatch.setattr(attention, "settled", {})
    monkeypatch.setattr(attention, "who", lambda *_: kernel)  # as on a GPU
    monkeypatch.setattr(attention, "flash", lambda *arguments: given.append(arguments[9:]) or compute(*arguments))
    query = rl.ones(1, 1, 16, 16)
    for _ in range(3):
        rl.nn.functional.scaled_dot_product_attention(query, query, query)
    assert given == [(kernel,)] * 3
