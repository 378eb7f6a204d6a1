"""Switches of the kernels of attention choose kernels, in compiled functions, too."""
import pytest

import rushlight as torch
from rushlight.backends import cpu, cuda
from rushlight.nn.attention import SDPBackend, sdpa_kernel
from rushlight.ops.attention import checked_kernel

F = torch.nn.functional
SWITCHES = {"FLASH_ATTENTION": cuda.enable_flash_sdp, "MATH": cuda.enable_math_sdp, "EFFICIENT_ATTENTION": cuda.enable_mem_efficient_sdp, "CUDNN_ATTENTION": cuda.enable_cudnn_sdp}


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
    from rushlight.compiler.llvm.features import host
    assert cpu.get_cpu_capability() == {512: "AVX512", 256: "AVX2"}.get(host().width, "DEFAULT")
