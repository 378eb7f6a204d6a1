"""The stand-ins for the vendor's libraries, loaded, over that for the driver."""
from __future__ import annotations

import ctypes
import functools

from . import stub_blas, stub_dnn
from .blas_numpy import multiplied
from .dnn_numpy import executed
from .recorded import provided


@functools.cache
def blas_image() -> bytes:
    return stub_blas.image()


class Connected:
    """A stand-in for a library that gives the driver's kernels to launch.  ``kernel``: their name, of so many
    arguments."""

    def __init__(self, folder, name: str, image: bytes, kernel: str, arguments: int, words):
        path = folder / name
        path.write_bytes(image)
        self.library, self.words = ctypes.CDLL(str(path)), words
        self.library.stub_state.restype = ctypes.POINTER(ctypes.c_int64)
        self.state = self.library.stub_state()
        self.name = ctypes.create_string_buffer(kernel.encode())
        self.function = (ctypes.c_int64 * 2)(ctypes.addressof(self.name), arguments)
        self.state[words.FUNCTION], self.state[words.VERSION] = ctypes.addressof(self.function), 120903

    def connect(self, driver):
        self.state[self.words.LAUNCH] = ctypes.cast(driver.library.cuLaunchKernel, ctypes.c_void_p).value

    def __getitem__(self, word: int) -> int:
        return self.state[word]

    def __setitem__(self, word: int, value: int):
        self.state[word] = value


class Products(Connected):
    """cuBLASLt.  ``seen``: the arguments of each product that was computed, by name; ``drops_nan``: of its ReLU."""

    def __init__(self, folder):
        super().__init__(folder, "libcublasLt-stand-in.so.12", blas_image(), "cublasLtMatmul", len(stub_blas.PASSED),
                         stub_blas)
        self.seen, self.drops_nan = [], False

    def multiply(self, arguments):
        self.seen.append(dict(zip(stub_blas.PASSED, arguments)))
        multiplied(arguments, self.drops_nan)


def with_products(monkeypatch, folder, **given):
    """(the provider "cuda", the driver's library, cuBLASLt)."""
    blas = Products(folder)
    provider, library = provided(monkeypatch, folder, libraries={"blas": blas.library},
                                 beside={"cublasLtMatmul": blas.multiply}, **given)
    blas.connect(library)
    return provider, library, blas


@functools.cache
def dnn_image() -> bytes:
    return stub_dnn.image()


def with_attention(monkeypatch, folder, **given):
    """(the provider "cuda", the driver's library, cuDNN)."""
    dnn = cudnn(folder)
    provider, library = provided(monkeypatch, folder, libraries={"dnn": dnn.library}, beside={"cudnnExecute": executed},
                                 **given)
    dnn.connect(library)
    return provider, library, dnn


def cudnn(folder) -> Connected:
    return Connected(folder, "libcudnn-stand-in.so.9", dnn_image(), "cudnnExecute", 2, stub_dnn)


def with_both(monkeypatch, folder, **given):
    """(the provider "cuda", the driver's library, cuBLASLt, cuDNN)."""
    blas, dnn = Products(folder), cudnn(folder)
    provider, library = provided(monkeypatch, folder, libraries={"blas": blas.library, "dnn": dnn.library},
                                 beside={"cublasLtMatmul": blas.multiply, "cudnnExecute": executed}, **given)
    for one in (blas, dnn):
        one.connect(library)
    return provider, library, blas, dnn
