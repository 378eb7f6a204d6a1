"""Raw memory, native calls and threads for the typed subset, in their plain Python meaning (through ctypes).

Addresses are plain integers. Compiled code turns each of these calls into one or two machine instructions; nothing
checks an address.

    >>> a = stack(2)
    >>> store_i64(a, 1, 7)
    >>> load_i64(a, 1)
    7
"""

import ctypes
import functools

from ..platform import here
from ..platform.base import CACHE_LINE, HUGE_PAGE, PAGE
from ..settings import settings


# All of memory as one array, the cheapest way that Python has to reach a word of it
_WORDS = (ctypes.c_int64 * (1 << 57)).from_address(0)
_DOUBLES = (ctypes.c_double * (1 << 57)).from_address(0)


class StackAddress(int):
    """The address of a block that lives as long as this integer does."""


@functools.cache
def _slots(count):
    return ctypes.c_int64 * count


def stack(slots: int) -> int:
    """The address of `slots` zeroed 8-byte slots that live until the calling function returns (keep the result in a
    local)."""
    block = _slots(slots)()
    address = StackAddress(ctypes.addressof(block))
    address.block = block
    return address


def load_i64(address: int, index: int) -> int:
    """The 64-bit integer at `address + 8 * index`; addresses of 8-byte values are multiples of 8."""
    return _WORDS[(address >> 3) + index]


def store_i64(address: int, index: int, value: int) -> None:
    """Store a 64-bit integer at `address + 8 * index`."""
    _WORDS[(address >> 3) + index] = value


def load_f64(address: int, index: int) -> float:
    """The double at `address + 8 * index`."""
    return _DOUBLES[(address >> 3) + index]


def store_f64(address: int, index: int, value: float) -> None:
    """Store a double at `address + 8 * index`."""
    _DOUBLES[(address >> 3) + index] = value


def load_f32(address: int, index: int) -> float:
    """The single-precision float at `address + 4 * index`."""
    return ctypes.c_float.from_address(address + 4 * index).value


def store_f32(address: int, index: int, value: float) -> None:
    """Store `value`, rounded to single precision, at `address + 4 * index`."""
    ctypes.c_float.from_address(address + 4 * index).value = value


def load_i32(address: int, index: int) -> int:
    """The signed 32-bit integer at `address + 4 * index`."""
    return ctypes.c_int32.from_address(address + 4 * index).value


def store_i32(address: int, index: int, value: int) -> None:
    """Store the low 32 bits of `value` at `address + 4 * index`."""
    ctypes.c_int32.from_address(address + 4 * index).value = value


def load_i16(address: int, index: int) -> int:
    """The signed 16-bit integer at `address + 2 * index`."""
    return ctypes.c_int16.from_address(address + 2 * index).value


def store_i16(address: int, index: int, value: int) -> None:
    """Store the low 16 bits of `value` at `address + 2 * index`."""
    ctypes.c_int16.from_address(address + 2 * index).value = value


def load_u8(address: int, index: int) -> int:
    """The unsigned byte at `address + index`."""
    return ctypes.c_uint8.from_address(address + index).value


def store_u8(address: int, index: int, value: int) -> None:
    """Store the low 8 bits of `value` at `address + index`."""
    ctypes.c_uint8.from_address(address + index).value = value & 255


def f64_bits(value: float) -> int:
    """The bits of a double as an integer, the form in which a kernel takes a scalar.

    >>> hex(f64_bits(1.0))
    '0x3ff0000000000000'
    """
    return ctypes.c_int64.from_buffer(ctypes.c_double(value)).value


def f64_from_bits(bits: int) -> float:
    """The double with the given bits."""
    return ctypes.c_double.from_buffer(ctypes.c_int64(bits)).value


def copy_bytes(target: int, source: int, nbytes: int) -> None:
    """Copy `nbytes` bytes; the blocks may overlap."""
    ctypes.memmove(target, source, nbytes)


def fill_bytes(target: int, value: int, nbytes: int) -> None:
    """Set `nbytes` bytes to the low 8 bits of `value`."""
    ctypes.memset(target, value & 255, nbytes)


def allocate_pages(nbytes: int) -> int:
    """The address of at least `nbytes` bytes, aligned to a cache line. Raises MemoryError.

    From 2 MB on a block consists of separate pages, huge ones if the system supports them, which are returned to the
    system when the block is freed.
    """
    if nbytes < 0:
        raise MemoryError(f"no memory for a block of {nbytes} bytes")
    if nbytes < HUGE_PAGE:
        address = here.allocate(max(nbytes + CACHE_LINE - 1 & -CACHE_LINE, CACHE_LINE))
    else:
        address = here.huge(nbytes + PAGE - 1 & -PAGE)
    if not address:
        raise MemoryError(f"no memory for a block of {nbytes} bytes")
    return address


def free_pages(address: int, nbytes: int) -> None:
    """Release a block of `allocate_pages`, given the size that was requested."""
    if nbytes < HUGE_PAGE:
        here.free(address)
    else:
        here.unmap(address, nbytes + PAGE - 1 & -PAGE)


def discard_pages(address: int, nbytes: int) -> None:
    """Give the whole pages between `address` and `address + nbytes` back to the system; they are zero when they are
    next touched."""
    here.discard(address, nbytes)


if settings.nodes == "interleave":  # threads that this one starts, those of the pool among them, do as it does
    here.interleave(here.nodes())

_runner = None
_runner_address = 0
_kernel = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_program = (None, ctypes.c_void_p, ctypes.c_void_p)


_runner_slots = []  # where compiled code looks for the runner


def attach_runner(slot: int) -> None:
    """Store the address of the program runner at `slot`, and keep it current."""
    _runner_slots.append(slot)
    ctypes.c_int64.from_address(slot).value = _runner_address


def set_program_runner(address: int) -> None:
    """Tell where the native `void program_run(ptr code, ptr values)` is; `run_program` raises RuntimeError before."""
    global _runner, _runner_address
    _runner_address = address
    for slot in _runner_slots:
        ctypes.c_int64.from_address(slot).value = address
    _runner = (ctypes.PYFUNCTYPE(*_program)(address), ctypes.CFUNCTYPE(*_program)(address))


def program_runner() -> int:
    """The address given to `set_program_runner`; raises RuntimeError when there is none yet."""
    if _runner is None:
        raise RuntimeError("no program runner was set: call memory.set_program_runner(address) first")
    return _runner_address


def run_program(code: int, values: int) -> None:
    """Run the program at `code` on the 8-byte `values`, holding the interpreter lock (right for small programs)."""
    program_runner()
    _runner[0](code, values)


def run_program_nogil(code: int, values: int) -> None:
    """Run the program at `code` on the 8-byte `values` while other Python threads may run."""
    program_runner()
    _runner[1](code, values)


def call_kernel(kernel: int, args: int, begin: int, end: int) -> None:
    """Call one `void kernel(ptr args, i64 begin, i64 end, i64 worker)` as worker 0, without the pool."""
    _kernel(kernel)(args, begin, end, 0)


def address_of(value: object) -> int:
    """The identity of an object as an integer: the result of `id`, valid as long as the object lives."""
    return id(value)
