"""Switches of the kernels of attention choose kernels, in compiled functions, too."""
import importlib

import pytest

import rushlight as torch
from rushlight.backends import cpu, cuda
from rushlight.nn.attention import SDPBackend, sdpa_kernel
from rushlight._src.ops.attention import checked_kernel

pytestmark = pytest.mark.processor

F = torch.nn.functional
SWITCHES = {"FLASH_ATTENTION": cuda.enable_flash_sdp, "MATH": cuda.enable_math_sdp,
            "EFFICIENT_ATTENTION": cuda.enable_mem_efficient_sdp, "CUDNN_ATTENTION": cuda.enable_cudnn_sdp}


@pytest.fixture(autouse=True)
def all_on():
    yield
    for switch in SWITCHES.values():
        switch(True)


def chosen(q):
    return checked_kernel(q, q, q, None, 0.0, False)[0]


def test_switches_choose():
    q = torch.rand(1, 2, 8, 4)
    attend = torch.compile(lambda q: F.scaled_dot_product_attention(q, q, q))
    first = attend(q)
    assert chosen(q) == "FLASH_ATTENTION"
    cuda.enable_flash_sdp(False)
    assert chosen(q) == "MATH" and not cuda.flash_sdp_enabled() and cuda.math_sdp_enabled()
    torch.testing.assert_close(attend(q), first)
    cuda.enable_math_sdp(False)
    assert chosen(q) == "EFFICIENT_ATTENTION"
    cuda.enable_mem_efficient_sdp(False)
    for call in (attend, lambda q: F.scaled_dot_product_attention(q, q, q)):
        with pytest.raises(RuntimeError, match="No available kernel"):
            call(q)
    with sdpa_kernel([SDPBackend.MATH]):
        assert chosen(q) == "MATH" and cuda.math_sdp_enabled() and not cuda.flash_sdp_enabled()
        torch.testing.assert_close(attend(q), first)
    assert not cuda.math_sdp_enabled()


def test_the_capability_of_the_processor():
    from rushlight._src.devices.cpu.llvm.features import host
    assert cpu.get_cpu_capability() == {512: "AVX512", 256: "AVX2"}.get(host().width, "DEFAULT")


def test_functions_of_scores_in_double_precision():
    from rushlight.nn.attention.flex_attention import flex_attention
    q, k, v = (torch.sin(torch.arange(2 * 16 * 8.0, dtype=torch.float64) + i).reshape(1, 2, 16, 8).requires_grad_()
               for i in range(3))
    for attend in (flex_attention, torch.compile(flex_attention)):
        out = attend(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j) * 0.1)
        bias = (torch.arange(16.0, dtype=torch.float64)[:, None] - torch.arange(16.0, dtype=torch.float64)) * 0.1
        expected = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        torch.testing.assert_close(out, expected, rtol=1e-7, atol=1e-7)
        found, wanted = (torch.autograd.grad(y.square().sum(), (q, k, v)) for y in (out, expected))
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-7)


def test_float64_is_computed_where_the_fused_kernel_alone_is_allowed():
    q = torch.rand(1, 2, 8, 4, dtype=torch.float64, requires_grad=True)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
        found = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    with sdpa_kernel([SDPBackend.MATH]):
        torch.testing.assert_close(found, F.scaled_dot_product_attention(q, q, q, is_causal=True))
    found.sum().backward()
    assert q.grad is not None


class Handle:
    """Notes that an implementation was removed."""

    def __init__(self, removed, name):
        self.remove = lambda: removed.append(name)


@pytest.mark.parametrize("lib", ["rushlight", "torch"])
def test_registered_implementations(lib, caplog):
    """One is active at a time; those without a handle are never called active."""
    pytest.importorskip(lib)
    attention, removed = importlib.import_module(f"{lib}.nn.attention"), []
    for name in ("one", "two", "none"):
        attention.register_flash_attention_impl(name, register_fn=lambda name=name: None if name == "none"
                                                else Handle(removed, name))
    assert {"FA3", "FA4", "none", "one", "two"} <= set(attention.list_flash_attention_impls())
    story = []
    for name in ("one", "two", "none", "one"):
        attention.activate_flash_attention_impl(name)
        story.append((attention.current_flash_attention_impl(), *removed))
    assert story == [("one",), ("two", "one"), (None, "one", "two"), ("one", "one", "two")]
    with pytest.raises(ValueError, match="Unknown flash attention impl 'other'. Available implementations:"):
        attention.activate_flash_attention_impl("other")
    assert attention.current_flash_attention_impl() is None and removed == ["one", "two", "one"]
    attention.restore_flash_attention_impl()
    assert "no custom impl was activated" in caplog.text


def test_implementations_of_compiled_kernels_are_refused():
    for name in ("FA3", "FA4"):
        with pytest.raises(NotImplementedError, match="compiled against PyTorch"):
            torch.nn.attention.activate_flash_attention_impl(name)
