"""Matmuls by the vendor's library, as candidates in addition to the template's: which exist, and their estimated
times.

A library's matmul is expected to reach REACHED of the tensor cores' rate, or to take the time of its memory traffic,
and longer if the last wave of tiles leaves units idle.  Without ``max_autotune`` it is taken if that is less than
FASTER of the
template's estimate, and SAVED less; with it both are measured.
"""

from __future__ import annotations

import functools

from .... import switches
from ....core.devices import device
from ....core.log import logger
from ....core.settings import settings
from ...shared.products import CompiledKernel, Contraction, Prologue
from ..rates import LAUNCH
from ..step import modules
from ..tuning import Choice
from .blas import Matrix, Product, Unsupported, scale_modes, unknown
from .dialects import AUX, BIAS, GELU, RELU
from .epilogues import recognised

log = logger("autotune")
REACHED = 0.82  # of a unit's rate by a library's large matmuls, about
FASTER = 0.95  # times the template's estimate that a library's has to be, to be taken without being measured
SAVED = 2e-6  # seconds that it has to save: the call of a library takes the host as much more than a launch, about
TILE = 128  # rows and columns of a library's tile, about
DEEP = 512  # the least depth of parts that a library makes of a product
RECENT, WORKSPACE, LESS = 9, 32 << 20, 4 << 20  # bytes of workspace that NVIDIA advises from sm_90 on, and before
BIASES = ("float32", "bfloat16", "float16", "float64")
AUX_LEADING = 8  # columns of the auxiliary output are a multiple of these


class Refused(Exception):
    """The reason not to use a library."""


def unwanted() -> bool:
    """True if settings disable libraries for matmuls."""
    return settings.vendor == "never" or switches.blas_library == "ck"


def preferred() -> bool:
    """True if matmuls go to a library whenever it supports them."""
    return settings.vendor == "always" or switches.blas_library in ("cublas", "cublaslt", "hipblaslt")


def matrix(dtype: str, sizes: tuple, strides: tuple, stride: int) -> Matrix:
    """Return the transpose of a matrix [rows, columns] with these strides, as a library's Matrix.  Refused if neither
    rows nor columns have unit stride."""
    (rows, columns), (down, along) = sizes, strides
    if (along == 1 or columns == 1) and (down >= columns or rows == 1):
        return Matrix(dtype, columns, rows, max(down, columns) if rows > 1 else columns, stride)
    if (down == 1 or rows == 1) and (along >= rows or columns == 1):
        return Matrix(dtype, rows, columns, max(along, rows) if columns > 1 else rows, stride, True)
    raise Refused(f"a matrix of strides {strides} has neither rows nor columns in one piece")


def stride_of(counts: tuple, strides: tuple) -> int:
    """The one stride of the matrices of a batch of several dimensions."""
    dims = [(count, stride) for count, stride in zip(counts, strides) if count > 1]
    for (_, outer), (count, inner) in zip(dims, dims[1:]):
        if outer != count * inner:
            raise Refused(f"batches of strides {strides} have no single one")
    return dims[-1][1] if dims else 0


class LibraryProducts:
    """The candidates of a library for matmuls of a device type.  ``templates``: what plans them otherwise."""

    def __init__(self, templates, libraries):
        self.templates, self.libraries, self.preferred = templates, libraries, preferred

    def blas(self):
        """The library of the device that is current; None without."""
        provider = device(self.templates.kind).provider
        return self.libraries.blas(provider.board(provider.current())) if provider.count() else None

    def choices(self, shape, left, right, epilogue, operands, sizes, batch, numbers, best: float) -> list:
        """The Choices; [] where there is no library, or it cannot do it, or there are no elements, or it is not
        expected to be faster than ``best`` seconds and nothing is measured.  A library is opened only where it may be
        chosen."""
        if shape[0] != "matrices" or unwanted() or 0 in (*sizes, batch):
            return []
        problem = shape, left, right, epilogue, operands, sizes, batch, numbers
        try:
            product = self.product(problem)
            most = float("inf") if settings.max_autotune or preferred() else min(FASTER * best, best - SAVED)
            if self.estimate(product) > most:
                return []
            blas = self.blas()
            if blas is None:
                return []
            product = product._replace(version=blas.version)
            found = self.along(blas, product, problem) or self.apart(blas, product, problem)
            found = [one for one in found if one.estimate <= most]
        except Refused as reason:
            log.debug("no library is used for a product of %s: %s", sizes, reason)
            return []
        if not found:
            log.debug("%s has nothing for a product of %s", blas.dialect.name, sizes)
        return found

    # --- problems --------------------------------------------------
    def product(self, problem) -> Product:
        """The problem without its epilogue; its result in the dtype of sums."""
        _, left, right, epilogue, _, (rows, columns, depth), batch, numbers = problem
        if isinstance(left, Prologue) or isinstance(right, Prologue):
            raise Refused("an operand is computed along")
        counts, a, b = numbers[:3], numbers[3:8], numbers[8:13]
        names = [given.format if hasattr(given, "format") else given.name for given in (left, right)]
        compute = self.compute(names[0])
        whole = compute if compute in ("float64", "int32") else "float32"
        return Product(
            batch, matrix(names[1], (depth, columns), b[3:], stride_of(counts, b[:3])),
            matrix(names[0], (rows, depth), a[3:], stride_of(counts, a[:3])),
            Matrix(whole, columns, rows, columns, rows * columns), compute,
            fast=bool(getattr(left, "fast", False)), reduced=switches.reduces(names[0]),
            workspace=WORKSPACE if recent(self.templates.architectures) else LESS)

    def compute(self, dtype: str) -> str:
        if dtype == "float32":
            return "tf32" if switches.allows_tf32("matmul") else "float32"
        if dtype == "float16" and switches.accumulates_halves:
            return "float16"
        return {"float64": "float64", "int8": "int32", "uint8": "int32"}.get(dtype, "float32")

    # --- plans --------------------------------------------------
    def along(self, blas, product: Product, problem) -> list:
        """Choices that compute the epilogue along; [] where the library has none such."""
        epilogue = problem[3]
        known = recognised(epilogue)
        if known is None or not all(blas.keeps(part) for part in known.parts if part in (RELU, GELU)):
            return []
        dtypes = {o.name: o.dtype.name for o in epilogue.operands}
        along = {o.name: o.along for o in epilogue.operands}
        roles, out = known.roles, epilogue.out.name
        scales = [roles[role] for role in ("scale_a", "scale_b") if role in roles]
        if (BIAS in roles and (dtypes[roles[BIAS]] != out or out not in BIASES)
                or "add" in roles and dtypes[roles["add"]] != out
                or any(dtypes[name] != "float32" for name in scales) or scales and product.a.dtype[:6] != "float8"
                or AUX in known.parts and (epilogue.further[0].dtype.name != out or product.d.rows % AUX_LEADING)
                or product.compute == "int32" and out != "int32"):
            return []
        kinds = tuple("one" if along[name] == "one" else "each" for name in scales)
        if len({*kinds}) > 1:
            return []
        product = product._replace(d=product.d._replace(dtype=out), parts=known.parts, scales=scale_modes(kinds),
                                   add="add" in roles, bias=dtypes[roles[BIAS]] if BIAS in roles else "")
        named = {**roles, AUX: epilogue.further[0].name if epilogue.further else ""}
        return self.listed(blas, product, problem, named, "c", None)

    def apart(self, blas, product: Product, problem) -> list:
        """Choices whose sums a launch of the template reads, which computes the epilogue."""
        return self.listed(blas, product, problem, {}, "parts", self.templates.joined(*problem))

    def listed(self, blas, product: Product, problem, named: dict, result: str, joined) -> list:
        if unknown(product, blas.dialect):
            raise Refused(unknown(product, blas.dialect))
        try:
            algorithms = blas.algorithms(product)
        except Unsupported as reason:  # an older library has not all attributes
            log.debug("%s has no such product: %s", blas.dialect.name, reason)
            return []
        other = self.templates.alone(*problem, role="part" if joined else "whole")
        estimate = self.estimate(product) + (joined[1] if joined else 0)
        found = []
        for rank, algorithm in enumerate(algorithms):
            one = product._replace(rank=rank, room=max(256, algorithm.workspace))
            name = f"{blas.dialect.name} {rank}" + (", then the epilogue" if joined else "")
            found.append(Choice(name, estimate * (1 + rank / 100), functools.partial(
                self.planned, one, problem, named, result, joined, other), True))
        return found

    def planned(self, product: Product, problem, named: dict, result: str, joined, other) -> Contraction:
        """The call, and the launch that computes the epilogue where the library does not."""
        a, b, c = problem[4]
        product = product._replace(other=(tuple(modules.made[other.kernel]), other.extent))
        given = {"a": b, "b": a, "d": c if result == "c" else result, "workspace": "workspace", **named}
        steps = [CompiledKernel(modules.number(product), 1,
                                (*(given[name] for name in product.names()), *other.operands), other.numbers)]
        temporaries = {"workspace": product.room}
        if joined:
            steps.append(joined[0])
            temporaries["parts"] = joined[2]
        return Contraction(tuple(steps), temporaries)

    # --- costs --------------------------------------------------
    def estimate(self, p: Product) -> float:
        """The seconds of a library's product by the model of cost."""
        gpu, (m, n, k) = self.templates.gpu, extents(p)
        kind = {"tf32": "tf32", "float64": "float64", "int32": "int8"}.get(p.compute) or (
            "float8" if p.a.dtype[:6] == "float8" else "float32" if p.a.dtype == "float32" else "half")
        rate = gpu.rates.get(kind, gpu.rates["float32"]) * REACHED
        tiles = p.batch * -(-m // TILE) * -(-n // TILE) * max(1, k // DEEP if m * n < TILE * TILE * gpu.units else 1)
        busy = tiles / gpu.units / -(-tiles // gpu.units)
        sizes = [(p.a, m * k), (p.b, n * k), (p.d, m * n)]
        moved = p.batch * sum(count * width(one.dtype) for one, count in sizes)
        return LAUNCH + max(2.0 * p.batch * m * n * k / (rate * busy), moved / gpu.bandwidth)


def extents(p: Product) -> tuple:
    """Rows and columns of the library's result, and the depth."""
    return p.d.rows, p.d.columns, p.a.rows if p.a.turned else p.a.columns


def width(dtype: str) -> int:
    """Bytes of an element.

    Example:
        >>> width("bfloat16"), width("float8_e5m2")
        (2, 1)
    """
    return {"float64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2}.get(dtype, 1)


def recent(architectures: str) -> bool:
    """Whether libraries are advised to have more workspace on the GPUs named.

    Example:
        >>> recent("sm_80 sm_90"), recent("sm_100"), recent("gfx942")
        (False, True, True)
    """
    return all(name.startswith("gfx") or int(name[3:-1]) >= RECENT for name in architectures.split())
