"""Constants shared by the writers and readers of packages; opening a package does not need the compiler."""
from __future__ import annotations

VERSION = 5        # of the C interface
HEADER_BYTES = 64  # before weights
NO_MEMORY, UNSUPPORTED = -1, -2
MISSING = -3         # an address is null
UNPLANNED = -4       # no plan for these sizes
NO_CONSTANT = -5     # no constant of this number
WRONG_SIZES = -100   # less the number of the input
# less the number of the tensor: inputs, then outputs
WRONG_DTYPE, WRONG_DEVICE, WRONG_SHAPE, WRONG_STRIDES = (-(k << 16) for k in range(1, 5))
UNMET = -(1 << 20)   # less the number of the check
NO_DRIVER, OTHER_GPU, NO_WEIGHTS, MISALIGNED = -10, -11, -12, -13  # of models for GPUs
REFUSED = -(1 << 21)  # less the status that the driver gave
ERRORS = ("", "an index is out of range", "there is no memory for the temporaries of a call",
          "a computation has no result: whole numbers divided by 0, or a matrix without an inverse",
          "the sizes of an input are not among those that the model was packaged for",
          "the model was not planned for these sizes", "an address is missing: NULL was given for what has elements",
          "there is no constant of this number",
          "the dtype of a tensor is not that which the model takes or gives there",
          "a tensor lies on a device, and the model reads and writes memory of the processor only",
          "the shape of an output is not that which the model gives for these inputs",
          "the elements of a tensor do not lie as the model reads or writes them: its strides are others")
"""What ``rl_error`` says."""
GPU_ERRORS = {
    NO_MEMORY: ERRORS[2], MISSING: ERRORS[6], 1: ERRORS[1],
    NO_DRIVER: "there is no driver's library, or it has no such device",
    OTHER_GPU: "the device is of another architecture than the model was compiled for",
    NO_WEIGHTS: "the file has not the weights that were packaged with the model",
    MISALIGNED: "an input or an output does not begin at a multiple of 16"}
"""What ``rl_error`` says of a model for GPUs; then of what the driver refused, of other reports of kernels."""
REFUSAL = "the driver refused a call: its status is -2097152 less the code"
HOST_DEVICES = (1, 3, 11)
"""DLPack's types of devices whose memory the processor reaches: its own, and what is pinned for GPUs."""
PYTHON = "python"
"""The target of models that have no machine code: the package holds an exported program."""
SUFFIXES = {"wasm32": "wasm", "x86_64-pc-windows-msvc": "dll", "arm64-apple-darwin": "dylib", PYTHON: "program"}
"""How names of libraries end, by kind of machine; "so" for others."""
MACHINE_CODE = {"cuda": "cubin", "hip": "hsaco"}
"""How names of kernels for GPUs end, by what the name of a target begins with: "cuda-sm_90"."""


def gpus(targets) -> list:
    """Those of one target, or of several, that are GPUs."""
    return [name for name in ([targets] if isinstance(targets, str) else targets or ())
            if str(name).partition("-")[0] in MACHINE_CODE]
