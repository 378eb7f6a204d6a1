"""The types that entries of drivers are called with are those of the vendors' headers, which Triton's package has."""
import ctypes
import functools
import importlib.util
import pathlib
import re

import pytest

from rushlight._src.devices.triton import driver, virtual

from . import stub

SIZES = {"int": 4, "unsigned int": 4, "unsigned": 4, "char": 1, "unsigned char": 1, "float": 4, "size_t": 8,
         "cuuint64_t": 8, "unsigned long long": 8, "CUdevice": 4, "hipDevice_t": 4, "CUdeviceptr": 8,
         "hipDeviceptr_t": 8}
HEADERS = {"cuda": ("nvidia/include/cuda.h",),
           "hip": ("amd/include/hip/hip_runtime_api.h", "amd/include/hip/driver_types.h",
                   "amd/include/hip/hip_deprecated.h")}
# declared in cudaProfiler.h, which Triton's package lacks; they have no parameters
WITHOUT_PARAMETERS = "cuProfilerStart", "cuProfilerStop"


@functools.cache
def header(kind: str) -> str:
    """The text of a vendor's headers, without comments."""
    found = importlib.util.find_spec("triton")
    if found is None:
        pytest.skip("the package triton is not installed: pip install rushlight[triton]")
    folder = pathlib.Path(found.submodule_search_locations[0]) / "backends"
    text = "\n".join((folder / one).read_text(errors="replace") for one in HEADERS[kind])
    return re.sub(r"/\*.*?\*/|//[^\n]*|__dparm\([^)]*\)", " ", text, flags=re.S)


def prototype(kind: str, name: str) -> list:
    """The arguments of an entry as the header has them: (its words without const, how many stars)."""
    if name in WITHOUT_PARAMETERS:
        return []
    text = header(kind)
    own = re.search(rf"\b{name}\s*\(([^)]*)\)\s*;", text)
    if own is None:  # a macro names the latest version so
        macro = re.search(rf"#define\s+(\w+)\s+(?:__CUDA_API_\w+\()?{name}\b", text)
        assert macro, f"{name} is not in the header"
        own = re.search(rf"\b{macro[1]}\s*\(([^)]*)\)\s*;", text)
    return [argument(one) for one in own[1].split(",") if one.strip() not in ("", "void")]


def argument(text: str) -> tuple:
    words = re.sub(r"\bconst\b|\bstruct\b|=.*", " ", text)
    stars = words.count("*") + words.count("[")
    names = re.sub(r"[*\[\]]", " ", words).split()
    whole = " ".join(names)
    known = next((kind for kind in sorted(SIZES, key=len, reverse=True) if whole == kind or
                  whole.startswith(kind + " ")), names[0])
    return known, stars


def size_of(kind: str, argument: tuple) -> int:
    """The bytes of an argument."""
    name, stars = argument
    if stars or name in SIZES:
        return 8 if stars else SIZES[name]
    text = header(kind)
    if re.search(rf"typedef\s+struct\s+\w+\s*\*\s*{name}\s*;|\(\s*\w*\s*\*\s*{name}\s*\)", text):
        return 8
    if re.search(rf"typedef\s+unsigned long long\s+{name}\w*\s*;", text) or re.search(
            rf"typedef\s+{name}_v1\s+{name}\s*;", text) and re.search(rf"unsigned long long\s+{name}_v1\s*;", text):
        return 8
    if re.search(rf"typedef\s+enum\s+\w*\s*\{{[^}}]*\}}\s*{name}\s*;", text) or re.search(
            rf"enum\s+(\w+\s+)?{name}\s*\{{", text):
        return 4
    raise AssertionError(f"what is {name}?")


def matches(kind: str, ours, theirs: tuple) -> bool:
    """Whether one of ctypes' types is what the header has."""
    name, stars = theirs
    if ctypes.sizeof(ours) != size_of(kind, theirs):
        return False
    if ours is ctypes.c_char_p:
        return (name, stars) == ("char", 1)
    inner = getattr(ours, "_type_", None)
    if ours is ctypes.c_void_p or not isinstance(inner, type):
        return True
    return stars >= 1 and (name == "void" or ctypes.sizeof(inner) == size_of(kind, (name, stars - 1)))


@pytest.mark.parametrize("vendor", [driver.NVIDIA, driver.AMD], ids=lambda vendor: vendor.kind)
def test_entries_take_what_the_headers_say(vendor):
    prefix, wrong = "cu" if vendor.kind == "cuda" else "hip", []
    rows = [*driver.Driver.signatures(vendor).values(),
            *((prefix + name, types) for name, types in virtual.ENTRIES.items())]
    assert len(rows) > 50
    for name, types in rows:
        wanted = prototype(vendor.kind, name)
        if len(wanted) != len(types) or not all(map(functools.partial(matches, vendor.kind), types, wanted)):
            wrong.append((name, [one.__name__ for one in types], wanted))
    assert not wrong


def test_the_stand_in_takes_what_the_header_says():
    sizes = {"p": 8, "z": 8, "i": 4, "b": 1}
    for name, kinds in stub.ENTRIES:
        assert [sizes[kind] for kind in kinds] == [size_of("cuda", one) for one in prototype("cuda", name)], name


def value_in(text: str, name: str) -> int:
    """The number of a constant of a header's enumeration."""
    body = next(body for body in re.findall(r"\benum\b[\w\s]*\{([^}]*)\}", text) if re.search(rf"\b{name}\b", body))
    at, known = -1, {}
    for row in filter(None, map(str.strip, re.sub(r"#[^\n]*", "", body).split(","))):
        own, _, given = row.partition("=")
        given = given.strip()
        at = at + 1 if not given else known[given] if given in known else int(given, 0)
        known[own.strip()] = at
    return known[name]


def test_numbers_are_those_of_the_headers():
    cuda, hip = header("cuda"), header("hip")
    names = {"max_threads_per_block": "MAX_THREADS_PER_BLOCK", "warp_size": "WARP_SIZE",
             "shared_memory_per_block": "MAX_SHARED_MEMORY_PER_BLOCK", "L2_cache_size": "L2_CACHE_SIZE",
             "max_threads_per_multi_processor": "MAX_THREADS_PER_MULTIPROCESSOR",
             "shared_memory_per_multiprocessor": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
             "regs_per_multiprocessor": "MAX_REGISTERS_PER_MULTIPROCESSOR", "pci_bus_id": "PCI_BUS_ID",
             "shared_memory_per_block_optin": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", "clock_rate": "CLOCK_RATE",
             "memory_clock_rate": "MEMORY_CLOCK_RATE", "memory_bus_width": "GLOBAL_MEMORY_BUS_WIDTH",
             "is_integrated": "INTEGRATED", "is_multi_gpu_board": "MULTI_GPU_BOARD", "pci_device_id": "PCI_DEVICE_ID",
             "pci_domain_id": "PCI_DOMAIN_ID"}
    from rushlight._src.devices.triton.properties import NUMBERS
    assert NUMBERS == {name: value_in(cuda, f"CU_DEVICE_ATTRIBUTE_{theirs}") for name, theirs in names.items()}
    assert driver.NVIDIA.counts == value_in(cuda, "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT")
    assert driver.NVIDIA.capability == tuple(
        value_in(cuda, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
    assert driver.NVIDIA.shared_attribute == value_in(cuda, "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES")
    assert driver.ORDINAL == value_in(cuda, "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL")
    assert driver.AMD.counts == value_in(hip, "hipDeviceAttributeMultiprocessorCount")
    assert driver.ORDINAL == value_in(hip, "HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL")
    for ours, cuda_name, hip_name in (
            (driver.OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "hipErrorOutOfMemory"),
            (driver.INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "hipErrorInvalidValue"),
            (driver.NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "hipErrorNoDevice"),
            (driver.NOT_READY, "CUDA_ERROR_NOT_READY", "hipErrorNotReady"),
            (driver.CONNECTED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "hipErrorPeerAccessAlreadyEnabled"),
            (driver.UNCONNECTED[0], "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "hipErrorPeerAccessUnsupported")):
        assert ours == value_in(cuda, cuda_name) == value_in(hip, hip_name), cuda_name
