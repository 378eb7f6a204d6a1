"""Convolutions by cuDNN, as candidates in addition to the template's: which exist, and their estimated times.

The library is expected to take REACHED of the rate of units, or the time that memory takes.  Without ``max_autotune``
it is taken where that is less than FASTER of the template's estimate, and SAVED less; with it both are measured.
"""

from __future__ import annotations

import functools
from math import prod

from .... import switches
from ....core.devices import device
from ....core.log import logger
from ....core.settings import settings
from ....determinism import are_deterministic_algorithms_enabled
from ...shared.products import Contraction, DIMENSIONS, IMAGE_NAMES, SIZES, Prologue
from ..rates import LAUNCH
from ..tuning import Choice
from .attended import called
from .convolution import RESULTS, Convolved
from .dialects import BIAS
from .dnn import Asked
from .epilogues import OF_IMAGES, recognised

log = logger("autotune")
REACHED = 0.7  # of a unit's rate by a library's convolutions, about
FASTER, SAVED = 0.9, 2e-5
MOST = 4  # engines that are measured
TILE = 128  # of the result, by which a library shares it, about
DTYPES = "float32", "float16", "bfloat16", "float64"


def convolved(direction: str, dtype: str, sizes: tuple, groups: int, numbers: tuple) -> Convolved:
    """The problem of a launch's numbers."""
    n = dict(zip(IMAGE_NAMES[len(SIZES):], numbers))
    rows, columns, depth = sizes
    outputs, inputs = (prod(n[f"{name}n{d}"] for d in DIMENSIONS) for name in "yx")
    pixels = {"forward": columns // outputs, "input": columns // inputs, "weight": depth // outputs}
    plain = all(n[f"{name}0"] == 1 for name in ("xn", "yn", "kn")) and not n["pad0"]
    dims = DIMENSIONS[1:] if plain else DIMENSIONS

    def along(name: str) -> tuple:
        return tuple(n[f"{name}{d}"] for d in dims)

    def strides(image: str, first: str, second: str, extents: str) -> tuple:
        held = list(along(image))
        for k in reversed(range(len(dims) - 1)):  # of a dimension that is made up
            held[k] = held[k] or held[k + 1] * n[f"{extents}{dims[k + 1]}"]
        return n[f"{image}{first}"], n[f"{image}{second}"], *held

    return Convolved(pixels[direction], n["ins"] * groups, n["outs"] * groups, groups, along("xn"), along("yn"),
                     along("kn"), along("step"), along("pad"), along("far"), strides("xs", "n", "c", "xn"),
                     strides("ys", "n", "c", "yn"), strides("ws", "o", "c", "kn"), dtype,
                     exact=dtype == "float32" and not switches.allows_tf32("cudnn"),
                     ordered=switches.deterministic_dnn or are_deterministic_algorithms_enabled())


class LibraryConvolutions:
    """The choices of cuDNN for convolutions on a device's type.  ``templates``: what plans them otherwise."""

    def __init__(self, templates, libraries):
        self.templates, self.libraries = templates, libraries

    def preferred(self) -> bool:
        return settings.vendor == "always"

    def dnn(self):
        """The library on the device that is current; None without."""
        if self.libraries is None:
            return None
        provider = device(self.templates.kind).provider
        return self.libraries.dnn(provider.board(provider.current())) if provider.count() else None

    def refusal(self, shape, left, right, epilogue, sizes) -> str:
        """Why the library is not asked; empty: it is."""
        if settings.vendor == "never" or not switches.uses_dnn:
            return "settings leave none to it"
        if not self.templates.architectures or self.templates.architectures.startswith("gfx"):
            return "there is no GPU of NVIDIA"
        if isinstance(left, Prologue) or isinstance(right, Prologue) or shape[2] or left is not right:
            return "an operand is computed along, or has a border"
        return left.name if left.name not in DTYPES else "there are no elements" if 0 in sizes else ""

    def choices(self, shape, left, right, epilogue, operands, sizes, batch, numbers, best: float) -> list:
        """The Choices; [] where there is no library, or it cannot do it, or is not expected to save enough."""
        reason = self.refusal(shape, left, right, epilogue, sizes)
        if reason:
            log.debug("cuDNN is not asked for a convolution: %s", reason)
            return []
        problem, direction = (shape, left, right, epilogue, operands, sizes, batch, numbers), shape[1]
        p = convolved(direction, left.name, sizes, batch, numbers)
        if any(step == 0 and size > 1 for name in ("x", "y", "weight") for step, size in zip(getattr(p, name),
                                                                                             p.shape(name))):
            return []  # elements that are read more than once
        estimate = self.estimate(p, sizes, batch)
        measured = settings.max_autotune or self.preferred()
        if not measured and estimate > min(FASTER * best, best - SAVED):
            return []
        dnn = self.dnn()
        if dnn is None:
            return []
        found = self.along(dnn, p, problem, estimate) or self.apart(dnn, p, problem, estimate)
        return [one for one in found if measured or one.estimate <= min(FASTER * best, best - SAVED)]

    def along(self, dnn, p: Convolved, problem, estimate: float) -> list:
        """Choices that compute the epilogue along."""
        epilogue, result = problem[3], RESULTS[problem[0][1]]
        known = recognised(epilogue, OF_IMAGES)
        if known is None or set(known.parts) - {BIAS} or epilogue.out.name != p.dtype:
            return []
        dtypes = {o.name: o.dtype.name for o in epilogue.operands}
        if any(dtypes[name] != p.dtype for name in known.roles.values()) or known.roles and result == "weight":
            return []
        parts = tuple(role for role in ("add", BIAS) if role in known.roles)
        return self.listed(dnn, p._replace(parts=parts), problem, estimate, dict(known.roles), None)

    def apart(self, dnn, p: Convolved, problem, estimate: float) -> list:
        """Choices whose results a launch of the template reads, which computes the epilogue; they are rounded to the
        operands' dtype before."""
        joined = self.templates.finished(*problem)
        return self.listed(dnn, p, problem, estimate + joined[1], {RESULTS[problem[0][1]]: "parts"}, joined)

    def listed(self, dnn, p: Convolved, problem, estimate: float, renamed: dict, joined) -> list:
        asked = Asked("convolution", tuple(p), problem[0][1], version=dnn.version)
        return [Choice(f"cuDNN {one.rank}" + (", then the epilogue" if joined else ""),
                       estimate * (1 + one.rank / 100),
                       functools.partial(self.planned, one, problem, renamed, joined), True)
                for one in dnn.fastest(asked, MOST, settings.max_autotune)]

    def planned(self, one: Asked, problem, renamed: dict, joined) -> Contraction:
        """The call, with the launch that does the same, and what computes the epilogue apart."""
        shape, left, right, _, operands, *rest = problem
        same = problem
        if joined:  # the template's launch gives what the library does
            same = shape, left, right, type(problem[3])(out=left), (*operands[:-1], "parts"), *rest
        call = called(one, Contraction((self.templates.alone(*same, role="whole"),)), {}, renamed)
        if not joined:
            return call
        return Contraction((*call.steps, joined[0]), {**call.temporaries, "parts": joined[2]})

    def estimate(self, p: Convolved, sizes: tuple, groups: int) -> float:
        """The seconds that the library should take."""
        gpu, (rows, columns, depth) = self.templates.gpu, sizes
        kind = {"float32": "float32" if p.exact else "tf32", "float64": "float64"}.get(p.dtype, "half")
        tiles = groups * -(-rows // TILE) * -(-columns // TILE)
        busy = tiles / gpu.units / -(-tiles // gpu.units)
        width = {"float64": 8, "float32": 4}.get(p.dtype, 2)
        moved = width * sum(prod(p.shape(name)) for name in ("x", "y", "weight"))
        rate = gpu.rates.get(kind, gpu.rates["float32"]) * REACHED * busy
        return LAUNCH + max(2.0 * groups * rows * columns * depth / rate, moved / gpu.bandwidth)
