"""Attention by cuDNN, as candidates in addition to the templates': which exist, and their estimated times.

The library is expected to take REACHED of the rate of units.  Without ``max_autotune`` it is taken where that saves
SAVED seconds, since it makes machine code for seconds when it first meets a problem; with it both are measured.
"""

from __future__ import annotations

import functools

from .... import switches
from ....core.devices import device
from ....core.log import logger
from ....core.settings import settings
from ....determinism import are_deterministic_algorithms_enabled
from ...shared.products import CompiledKernel, Contraction
from ..rates import LAUNCH
from ..step import modules
from ..tuning import Choice
from .attention import fields_of
from .dnn import Asked

log = logger("autotune")
REACHED = {"forward": 0.62, "backward": 0.5}  # of a unit's rate, about
PRODUCTS = {"forward": 4.0, "backward": 10.0}  # operations for each score and element of a head
SAVED = 1e-4
# elements of a head, at most, forward and backward, as cuDNN 9.28 proposes engines; what they are multiples of
MOST_SIZE, STEP = {"sm_8": (256, 128), "sm_9": (256, 256), "sm_10": (128, 128)}, 8
MOST = 4  # engines that are measured
VENDOR, OWN = "vendor", "own"  # values of ``AttentionSpec.kernel``


def declined(architectures: str, dtype: str, size: int, value_size: int, direction="forward") -> str | None:
    """Why cuDNN has no kernel for heads of these sizes; None where it may have one.

    Example:
        >>> declined("sm_90", "float32", 64, 64), declined("sm_90", "bfloat16", 64, 128)
        ('float32', None)
    """
    if dtype not in ("bfloat16", "float16"):
        return dtype
    for name in architectures.split():
        most = next((most for start, most in MOST_SIZE.items() if name.startswith(start)), (0, 0))
        if max(size, value_size) > most[direction == "backward"] or size % STEP or value_size % STEP:
            return f"heads of {size} and {value_size} on {name}"
    return None if architectures else "no GPU"


class LibraryAttention:
    """The choices of cuDNN for attention on a device's type.  ``templates``: what plans it otherwise."""

    def __init__(self, templates, libraries):
        self.templates, self.libraries = templates, libraries

    def dnn(self):
        """The library on the device that is current; None without."""
        if self.libraries is None:
            return None
        provider = device(self.templates.kind).provider
        return self.libraries.dnn(provider.board(provider.current())) if provider.count() else None

    def refusal(self, p, direction: str) -> str:
        """Why the library is not asked; empty: it is."""
        own = declined(self.templates.architectures, p.dtype, p.size, p.value_size, direction)
        if own is not None:
            return own
        if p.spec.mods is not None or p.spec.longest or p.blocks != (0, 0, 0):
            return "functions of scores, sequences end to end, or a map of blocks"
        if p.spec.drop:
            return "dropout, which the library draws otherwise"
        if p.mask and (p.mask != p.dtype or p.spec.kernel != VENDOR):
            return "a mask, of which the library makes NaN where it leaves nothing"
        if not switches.uses_dnn:
            return "backends.cudnn.enabled is False"
        if direction == "backward" and (switches.deterministic_dnn or are_deterministic_algorithms_enabled()):
            return "its gradient of queries is not the same each time"
        return ""

    def choices(self, p, direction: str, best: float) -> list:
        """The Choices; [] where there is no library, or it cannot do it, or is not expected to save enough."""
        always = settings.vendor == "always" or p.spec.kernel == VENDOR
        if p.spec.kernel == OWN or settings.vendor == "never" and p.spec.kernel != VENDOR:
            return []
        reason, estimate = self.refusal(p, direction), self.estimate(p, direction)
        if reason or not (always or settings.max_autotune) and estimate > best - SAVED:
            log.debug("cuDNN is not asked for attention: %s", reason or "it is not expected to be faster")
            return []
        dnn = self.dnn()
        if dnn is None:
            return []
        listed = dnn.fastest(Asked("attention", fields_of(p), direction, version=dnn.version), MOST,
                             settings.max_autotune)
        return [Choice(f"cuDNN {one.rank}", estimate * (1 + one.rank / 100), functools.partial(self.planned, one, p),
                       True) for one in listed]

    def planned(self, one: Asked, p) -> Contraction:
        """The call, with the launches that do the same."""
        more = {"sums": 4 * p.batch * p.heads * p.queries * p.size} if one.direction == "backward" else {}
        return called(one, self.templates.own(p, one.direction), more)

    def estimate(self, p, direction: str) -> float:
        """The seconds that the library should take."""
        scores = p.batch * p.heads * p.queries * p.keys * (0.5 if p.spec.causal else 1.0)
        work = PRODUCTS[direction] * scores * (p.size + p.value_size) / 2
        rate = self.templates.gpu.rates["half"] * REACHED[direction]
        return LAUNCH + work / rate


def called(one: Asked, others: Contraction, temporaries: dict, renamed=None) -> Contraction:
    """A call, with the launches that do the same for addresses that it does not take.  ``renamed``: what operands are
    called in these, by the call's names."""
    slots, kernels = [], []
    for step in others.steps:
        slots += [*step.operands, *step.numbers]
        kernels.append((tuple(modules.made[step.kernel]), step.extent, len(step.operands) + len(step.numbers)))
    one, renamed = one._replace(others=tuple(kernels)), renamed or {}
    names = *(renamed.get(name, name) for name in one.names()), *slots
    return Contraction((SlottedCall(modules.number(one), 1, names, ()),),
                       {"workspace": one.room, **others.temporaries, **temporaries})


class SlottedCall(CompiledKernel):
    """A call whose slots are names of operands and numbers in any order."""

    def launch(self, place):
        return CompiledKernel(self.kernel, self.extent, (), self.operands, self.flag).launch(place)
