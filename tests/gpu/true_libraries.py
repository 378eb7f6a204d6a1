"""The true libraries of NVIDIA as judges, on a machine without a GPU: ``python -m tests.gpu.true_libraries``.

They are looked for as the package does (``RUSHLIGHT_VENDOR_PATH``, wheels).  cuBLASLt tells which attributes its
descriptors have, and of how many bytes; cuDNN, which is given the properties of an H200 as text, proposes engines for
our graphs of attention and convolutions, and makes their plans.  Neither computes anything.  A process of its own does
it, since cuDNN wants a driver's library to be there: one by our own code generator, whose entries all fail.
"""
from __future__ import annotations

import ctypes
import dataclasses
import json
import pathlib
import sys
import tempfile

from rushlight._src.devices.cpu.llvm import jit
from rushlight._src.devices.cpu.llvm.builder import Module
from rushlight._src.devices.cpu.llvm.types import i32
from rushlight._src.devices.cpu.llvm.values import constant
from rushlight._src.devices.shared.attention import Attention
from rushlight._src.devices.triton.vendor import attention, convolution
from rushlight._src.devices.triton.vendor.blas import Blas, Matrix, Product
from rushlight._src.devices.triton.vendor.dialects import AUX, BIAS, GELU, NVIDIA
from rushlight._src.devices.triton.vendor.dnn import FILES, NEEDS
from rushlight._src.devices.triton.vendor.finding import opened
from rushlight._src.devices.triton.vendor.graphs import (Descriptor, DnnError, Handle, OF_DEVICE, TEXT, WHOLE,
                                                         configurations, packed, plan_of)
from rushlight._src.ops.flash import AttentionSpec
from rushlight._src.packages.objects import SharedObject

from .stub_blas import LAYOUTS, OPERATIONS, PREFERENCES

DRIVER = """cuGetErrorString cuModuleGetFunction cuModuleLoadData cuModuleUnload cuTensorMapEncodeIm2col
cuTensorMapEncodeTiled cuLaunchKernel cuLaunchCooperativeKernel cuLaunchKernelEx cuGetErrorName cuCtxGetCurrent
cuCtxGetLimit cuCtxPopCurrent cuCtxPushCurrent cuStreamGetCtx cuDriverGetVersion cuLinkCreate cuLinkAddData
cuLinkComplete cuLinkDestroy cuDeviceGetCount cuDeviceGet cuLibraryLoadData cuLibraryLoadFromFile cuLibraryGetKernel
cuLibraryUnload cuKernelSetAttribute cuKernelGetAttribute cuKernelGetFunction
cuOccupancyMaxPotentialClusterSize""".split()
H200 = {"deviceVer": 900, "driverVer": 12090, "maxGridSize": [2147483647, 65535, 65535],
        "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "multiProcessorCount": 132, "smCountOrigin": 0,
        "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
        "oversizedSharedMemoryPerBlock": 0, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
        "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
        "supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "memoryBusWidth": 6144,
        "l2CacheSize": 62914560, "totalGlobalMem": 150120824832, "deviceName": "NVIDIA H200", "cudaDeviceId": 0}
CASES = {  # batch, heads, heads of keys, queries, keys, sizes of heads, causal, dtype, mask
    "plain": (2, 4, 4, 256, 256, 64, 64, False, "bfloat16", ""),
    "causal": (2, 8, 2, 512, 512, 128, 128, True, "bfloat16", ""),
    "mask": (2, 4, 4, 256, 512, 64, 64, False, "float16", "float16"),
    "sizes": (1, 2, 2, 100, 77, 64, 64, False, "float16", "")}

CONVOLVED = {  # batch, channels of x and of y, groups, pixels, kernel, step, zeros around, distance, dtype, last, bias
    "convolution": (8, 64, 128, 1, (56, 56), (3, 3), (1, 1), (1, 1), (1, 1), "bfloat16", True, True),
    "rows": (8, 64, 128, 1, (56, 56), (3, 3), (2, 2), (1, 1), (1, 1), "float16", False, False),
    "exact": (8, 32, 64, 1, (28, 28), (1, 1), (1, 1), (0, 0), (1, 1), "float32", False, False),
    "groups": (4, 64, 64, 64, (28, 28), (3, 3), (1, 1), (1, 1), (1, 1), "float16", True, False),
    "three dimensions": (2, 16, 32, 1, (8, 28, 28), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), "bfloat16", True,
                         False)}


def convolved(batch, ins, outs, groups, size, kernel, step, pad, far, dtype, last, bias) -> convolution.Convolved:
    out = tuple((n + 2 * p - f * (k - 1) - 1) // s + 1 for n, p, f, k, s in zip(size, pad, far, kernel, step))

    def strides(shape):
        if not last:
            return packed(shape)
        outer, *inner, channels = packed((shape[0], *shape[2:], shape[1]))
        return outer, channels, *inner

    shapes = (batch, ins, *size), (batch, outs, *out), (outs, ins // groups, *kernel)
    return convolution.Convolved(batch, ins, outs, groups, size, out, kernel, step, pad, far, *map(strides, shapes),
                                 dtype, ("bias",) if bias else (), exact=dtype == "float32", ordered=True)


def stand_in():
    """A library of the driver's name, whose entries all give an error."""
    module = Module()
    for name in DRIVER:
        module.function(name, [], i32).ret(constant(i32, 3))
    made = SharedObject()
    made.add_object(jit.compile_object(module.text()))
    path = pathlib.Path(tempfile.mkdtemp()) / "libcuda.so.1"
    path.write_bytes(made.image(tuple(DRIVER), "libcuda.so.1"))
    return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def sizes_of(library, create, given: tuple, entry: str, most: int) -> dict:
    """{attribute: bytes} of a kind of descriptor, as the library takes them."""
    place, found = ctypes.c_void_p(), {}
    assert getattr(library, create)(ctypes.byref(place), *given) == 0
    value = (ctypes.c_int64 * 4)()
    for number in range(most):
        for size in (1, 4, 8):
            if getattr(library, entry)(place, number, value, ctypes.c_size_t(size)) == 0:
                found[number] = size
    return found


def blas() -> dict:
    """What cuBLASLt says: the attributes that it knows, and whether all descriptors of ours can be made."""
    library = opened(NVIDIA.files)
    if library is None:
        return {"cuBLASLt": "is not there"}
    whole = ctypes.c_uint64(8), ctypes.c_uint64(8), ctypes.c_int64(8)
    told = [sizes_of(library, "cublasLtMatmulDescCreate", (68, 0), "cublasLtMatmulDescSetAttribute", 38),
            sizes_of(library, "cublasLtMatrixLayoutCreate", (0, *whole), "cublasLtMatrixLayoutSetAttribute", 8),
            sizes_of(library, "cublasLtMatmulPreferenceCreate", (), "cublasLtMatmulPreferenceSetAttribute", 13)]
    differ = [{number: (size, known.get(number)) for number, size in mine.items() if known.get(number) != size}
              for mine, known in zip((OPERATIONS, LAYOUTS, PREFERENCES), told)]
    library.cublasLtGetVersion.restype = ctypes.c_size_t
    return {"cuBLASLt": library.cublasLtGetVersion(), "attributes": [len(one) for one in told],
            "unlike the stand-in's": differ, "products": described(library)}


def described(library) -> int:
    """The number of kinds of matmul for which the library has made descriptors."""
    one = Blas.__new__(Blas)  # without a handle, which wants a device
    one.dialect, one.made, one.found, one.kept, one.entries = NVIDIA, {}, {}, {}, {}
    from rushlight._src.devices.triton.vendor.blas import ENTRIES, I
    for entry, types in ENTRIES.items():
        function = getattr(library, NVIDIA.prefix + entry)
        function.restype, function.argtypes = I, types
        one.entries[entry] = function
    count = 0
    for dtype, compute in (("float32", "float32"), ("float32", "tf32"), ("bfloat16", "float32"), ("float16", "float16"),
                           ("float64", "float64"), ("int8", "int32"), ("float8_e4m3fn", "float32")):
        out = {"int8": "int32", "float8_e4m3fn": "bfloat16"}.get(dtype, dtype)
        for parts in ((), (BIAS,), (GELU, BIAS), (GELU, AUX, BIAS)):
            for batch in (1, 3):
                a, d = Matrix(dtype, 16, 32, 16, 512, True), Matrix(out, 32, 32, 32, 1024)
                one.described(Product(batch, a, a._replace(turned=False), d, compute, parts,
                                      scales=(3, 3) if dtype[:6] == "float8" else (), add=batch > 1,
                                      bias="bfloat16" if BIAS in parts else "", fast=True))
                count += 1
    return count


def dnn() -> dict:
    """What cuDNN says to our graphs: engines, and bytes of workspace of the first plan that can be made."""
    keep = stand_in()
    library = opened(FILES, NEEDS)
    if library is None:
        return {"cuDNN": "is not there"}
    handle = Handle(library)
    handle.keep = keep
    library.cudnnGetVersion.restype = ctypes.c_size_t
    found = {"cuDNN": library.cudnnGetVersion()}
    text = json.dumps(H200).encode()
    handle.device = Descriptor(handle, OF_DEVICE).set(2702, TEXT, *(bytes([one]) for one in text)).done()
    for name, case in CASES.items():
        for direction in ("forward", "backward"):
            found[f"{name} {direction}"] = planned(handle, attention, problem(*case), direction)
    for name, case in CONVOLVED.items():
        for direction in convolution.DIRECTIONS:
            p = convolved(*case)
            p = p if direction == "forward" else p._replace(parts=())
            found[f"{name} {direction}"] = planned(handle, convolution, p, direction)
    return found


def problem(batch, heads, shared, queries, keys, size, value_size, causal, dtype, mask) -> Attention:
    def strides(heads, rows, size):
        return heads * rows * size, rows * size, size, 1

    q, k, v = strides(heads, queries, size), strides(shared, keys, size), strides(shared, keys, value_size)
    made = Attention(batch, heads, heads // shared, queries, keys, size, value_size, q, k, v,
                     strides(heads, queries, value_size), dtype, AttentionSpec(causal, size ** -0.5), mask,
                     strides(heads, queries, keys) if mask else (0, 0, 0, 1))
    return dataclasses.replace(made, grad=made.out, grad_q=q, grad_k=k, grad_v=v)


def planned(handle, kind, p, direction: str) -> dict:
    reasons = []
    try:
        listed = [one for one in configurations(kind.graph(handle, p, direction).done()) if kind.suits(p, one)]
    except DnnError as reason:
        return {"engines": 0, "reason": str(reason)}
    for one in listed:
        try:
            return {"engines": len(listed), "workspace": plan_of(one).get(402, WHOLE)}
        except DnnError as reason:
            reasons.append(str(reason))
    return {"engines": len(listed), "reason": reasons}


if __name__ == "__main__":
    print(json.dumps({**blas(), **dnn()}, indent=1, default=str))
    sys.stdout.flush()
