"""What compilers have made of templates' blocks: no block that keeps registers in memory is offered where another does
not."""
import pytest

from rushlight._src.devices.shared.attention import Form
from rushlight._src.devices.triton.costs import Work, resident, seconds
from rushlight._src.devices.triton.rates import GPUS, shared_of
from rushlight._src.devices.triton.templates import attention
from rushlight._src.devices.triton.templates.facts import facts_of, table
from rushlight._src.devices.triton.templates.flash import Forward
from rushlight._src.devices.triton.templates.flash_backward import KeyGradient, QueryGradient

KERNELS = Forward, QueryGradient, KeyGradient


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("architecture", [*GPUS, "sm_89", "sm_80 sm_90"])
def test_what_is_offered(architecture, kernel):
    for dtype, kind in (("bfloat16", "half"), ("float32", "single")):
        for size in (40, 64, 128, 256):
            form = Form(dtype, size, size, True, False, False)
            for queries, keys in ((1, 4096), (8192, 8192), (100, 7)):
                listed = attention.choices(kernel, form, queries, keys, architecture)
                assert listed and all(b.queries <= max(16, 2 * queries) and b.keys <= max(16, 2 * keys) for b in listed)
                least = min((f.spilled for f in facts_of(architecture, kind, max(64, size), kernel.__name__).values()),
                            default=0)
                assert all(facts.spilled == least or not facts.spilled for facts in listed.values())
                if facts_of(architecture, kind, max(64, size), kernel.__name__):  # else shared bytes are a bound
                    assert min(facts.shared for facts in listed.values()) <= shared_of(architecture)


def test_forms_with_holes_leave_room():
    plain = Form("bfloat16", 128, 128, True, False, False)
    many = attention.choices(Forward, plain, 8192, 8192, "sm_90")
    few = attention.choices(Forward, plain._replace(drops=True), 8192, 8192, "sm_90")
    assert set(few) < set(many) and max(f.registers for f in few.values()) <= attention.PLAIN


def test_no_unit_holds_what_keeps_registers_in_memory():
    work = Work(1024, 1e9, 1e6, 1e9, 128, 255, 32 << 10, "half")
    assert resident(GPUS["sm_90"], work) and not resident(GPUS["sm_90"], work._replace(spilled=4))
    assert seconds(GPUS["sm_90"], work._replace(spilled=4)) == float("inf")


def test_the_table_is_whole():
    """NVIDIA GPUs whose 16-bit attention is looked up in a table have a row for each kernel and head size."""
    for gpu in ("sm_80", "sm_90"):
        for size in attention.HEADS:
            for kernel in KERNELS:
                assert any(not facts.spilled for facts in table()[gpu, "half", size, kernel.__name__].values())
