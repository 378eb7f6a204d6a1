"""Constants of cuBLASLt and hipBLASLt, which share entries: numbers of types, attributes and epilogues."""

from __future__ import annotations

from typing import NamedTuple

BIAS, RELU, GELU, AUX = "bias", "relu", "gelu", "aux"


class Dialect(NamedTuple):
    """``name``: as in the log; ``prefix``: of entries; ``files``: names of the library; ``types``, ``computes``: by
    dtype, and by the precision of matmuls; ``operations``: of a matrix as it is, and transposed; ``layout`` and
    ``about``: attributes of a matrix, and of a matmul, as (number, bytes); ``preferences``: of a search; ``epilogues``:
    by the set of their parts; ``algorithm``: bytes of the description of one; ``statuses``: by number."""

    name: str
    prefix: str
    files: tuple
    types: dict
    computes: dict
    operations: tuple
    layout: dict
    about: dict
    preferences: dict
    epilogues: dict
    algorithm: int
    statuses: dict


EPILOGUES = {frozenset(): 1, frozenset((RELU,)): 2, frozenset((BIAS,)): 4, frozenset((RELU, BIAS)): 6,
             frozenset((GELU,)): 32, frozenset((GELU, BIAS)): 36, frozenset((GELU, AUX)): 160,
             frozenset((GELU, AUX, BIAS)): 164}
TYPES = {"float32": 0, "float64": 1, "float16": 2, "int8": 3, "int32": 10, "bfloat16": 14, "float8_e4m3fn": 28,
         "float8_e5m2": 29}
STATUSES = {1: "not initialized", 2: "no memory", 3: "no memory", 7: "invalid value", 8: "architecture mismatch",
            11: "mapping error", 13: "execution failed", 14: "internal error", 15: "not supported"}
NVIDIA = Dialect(
    "cuBLASLt", "cublasLt", ("libcublasLt.so.13", "libcublasLt.so.12", "cublasLt64_13.dll", "cublasLt64_12.dll"), TYPES,
    {"float16": 64, "float32": 68, "tf32": 77, "float64": 70, "int32": 72}, (0, 1),
    {"batch": (5, 4), "stride": (6, 8)},
    {"left": (3, 4), "right": (4, 4), "epilogue": (7, 4), "bias": (8, 8), "aux": (11, 8), "aux_leading": (12, 8),
     "aux_stride": (13, 8), "scale_a": (17, 8), "scale_b": (18, 8), "fast": (25, 1), "bias_type": (26, 4),
     "mode_a": (31, 4), "mode_b": (32, 4)},
    {"workspace": (1, 8), "reductions": (3, 4), "align_a": (5, 4), "align_b": (6, 4), "align_c": (7, 4),
     "align_d": (8, 4)}, EPILOGUES, 64, STATUSES)
AMD = Dialect(
    "hipBLASLt", "hipblasLt", ("libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so"),
    TYPES | {"float8_e4m3fnuz": 1000, "float8_e5m2fnuz": 1001},
    {"float32": 2, "tf32": 6, "int32": 9}, (111, 112),
    {"batch": (0, 4), "stride": (1, 8)},
    {"left": (0, 4), "right": (1, 4), "epilogue": (2, 4), "bias": (3, 8), "bias_type": (4, 4), "scale_a": (5, 8),
     "scale_b": (6, 8), "aux": (10, 8), "aux_leading": (11, 8), "aux_stride": (12, 8), "mode_a": (31, 4),
     "mode_b": (32, 4)},
    {"workspace": (1, 8)}, EPILOGUES, 24,
    {1: "not initialized", 2: "no memory", 3: "invalid value", 4: "mapping error", 5: "execution failed",
     6: "internal error", 7: "not supported", 8: "architecture mismatch"})
DIALECTS = {"cuda": NVIDIA, "hip": AMD}
SCALE_OF_ALL, SCALE_OF_ROWS = 0, 3  # modes: one number, or one a row of the result
NO_REDUCED = 2  # reductions of parts that keep their digits: in the type of computation
