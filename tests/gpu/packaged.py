"""Models packaged for a GPU, run through the package's C interface: Triton's interpreter computes what the stand-in for
the driver's library is given.  ``python -m tests.gpu.packaged FOLDER``, where the system finds FOLDER/libcuda.so.1, a
link to ``libcuda-stand-in.so.1`` beside it; prints what it saw as JSON."""
from __future__ import annotations

import concurrent.futures
import ctypes
import json
import pathlib
import sys
import zipfile

import numpy as np

from . import interpreter  # noqa: F401 - before anything imports Triton

import rushlight as torch
from rushlight._src.packages import boards

from ..packages.test_packages import MODELS, Counter
from .recorded import Named, Recorded

nn = torch.nn
NAMES = "linear", "embedding", "bfloat16"
N = ctypes.c_int64


class Library:
    """model.so of a package in ``folder``; one model of it."""

    def __init__(self, model, inputs, folder):
        folder.mkdir()
        path = str(folder / "model.pt2")
        program = torch.export.export(model.eval(), inputs)
        torch._inductor.aoti_compile_and_package(program, package_path=path, target="cuda-sm_90")
        with zipfile.ZipFile(path) as file:
            file.extract("package/data/aotinductor/model/model.so", folder)
        self.library = ctypes.CDLL(str(folder / "package/data/aotinductor/model/model.so"))
        self.library.rl_error.restype = ctypes.c_char_p
        for name in ("create_on", "run_on", "wait"):
            getattr(self.library, f"rl_{name}").restype = N
        self.made = ctypes.c_void_p()
        self.code = self.library.rl_create_on(path.encode(), N(1), ctypes.byref(self.made))

    def run(self, inputs, outputs, stream=0) -> int:
        tables = [(ctypes.c_void_p * len(rows))(*(one.data_ptr() for one in rows)) for rows in (inputs, outputs)]
        return self.library.rl_run_on(self.made, ctypes.c_void_p(stream), *tables)

    def wait(self) -> int:
        return self.library.rl_wait(self.made)

    def results(self, inputs, wanted, stream=0) -> list:
        """Empty tensors like those that are wanted, computed."""
        made = [torch.empty_like(one) for one in wanted]
        assert self.run(inputs, made, stream) == 0 == self.wait()
        return made

    def leave(self):
        self.library.rl_destroy(self.made)


def distance(found, wanted) -> float:
    return max(float(np.abs(a.float().numpy() - b.float().numpy()).max()) for a, b in zip(found, wanted, strict=True))


def stream_of(library) -> int:
    made = ctypes.c_void_p()
    assert library.library.cuStreamCreateWithPriority(ctypes.byref(made), 0, 0) == 0
    return made.value


def main(folder):
    names = Named()
    boards.binary = names.binary  # what is packaged is a name
    driver, told = Recorded(folder, run=names.run), {}
    for name in NAMES:
        torch.manual_seed(0)
        model, inputs = MODELS[name]()
        made = Library(model, inputs, folder / name)
        wanted = [model(*inputs).detach()]
        told[name] = made.code, max(distance(made.results(inputs, wanted), wanted) for _ in range(2))
        if name == "embedding":
            room, bad = torch.empty_like(wanted[0]), inputs[0].clone()
            bad[1, 2] = 20
            told["reported"] = made.run([bad], [room]), made.wait(), made.wait()
        if name == "linear":
            first, second = stream_of(driver), stream_of(driver)
            driver.clear()
            told["on streams"] = [distance(made.results(inputs, wanted, one), wanted) for one in (first, first, second)]
            told["waits"] = [[first, second].index(row[1]) for row in driver.notes("cuStreamWaitEvent")]
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                told["on threads"] = list(pool.map(
                    lambda _: distance(made.results(inputs, wanted), wanted), range(8)))
        driver.clear()
        made.leave()
        told[f"{name} left"] = [driver.counts()[entry] for entry in ("cuModuleUnload", "cuMemFree_v2")]
    x, made = torch.ones(3), Library(Counter(), (torch.ones(3),), folder / "counter")
    told["counted"] = [made.results([x], [x])[0].tolist() for _ in range(3)]
    for entry in ("cuModuleLoadData", "cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2", "cuEventCreate"):
        with driver.failing(entry, 7):
            other = Library(Counter(), (torch.ones(3),), folder / entry)
        told[entry] = other.code, other.made.value
    assert driver.failure is None, driver.failure
    print(json.dumps(told))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
