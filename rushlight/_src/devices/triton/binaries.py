"""Machine code of modules by Triton's compiler, for a GPU that may be absent; cached on disk."""

from __future__ import annotations

from typing import NamedTuple

from ...core import cache
from ...core.encoding import decode, encode
from .rates import MOST_SHARED, SHARED
from .step import Module
from .texts import function_of, imported

ALIGNED = [["tt.divisibility", 16]]

# what Triton's compiler says, in errors of no type of its own, where a module wants what there is not
RESOURCES = "out of resource", "shared memory", "too many resources", "register", "passmanager::run failed"


class Variant(NamedTuple):
    """The compile-time parameters of a module's machine code: elements of a block, whether positions have 64 bits, and
    which arguments are known multiples of 16."""

    block: int
    wide: bool = False
    aligned: tuple = ()


class Binary(NamedTuple):
    """Machine code: the name of its entry, bytes of shared memory and threads of a program; ``scratch``: bytes of
    memory that each program needs."""

    code: bytes
    entry: str
    shared: int
    threads: int
    scratch: int = 0


class Packaged(NamedTuple):
    """A module with machine code, which needs no Triton, for fixed assumptions about its arguments."""

    module: Module
    variant: Variant
    binary: Binary

    @property
    def flag(self) -> bool:
        return self.module.flag


class Unfit(RuntimeError):
    """A module without machine code for a GPU: it does not compile, or does not fit on a multiprocessor."""


def target_of(architecture: str):
    """Triton's GPUTarget of "sm_90" or "gfx942"."""
    imported()
    from triton.backends.compiler import GPUTarget

    if architecture.startswith("sm_"):
        return GPUTarget("cuda", int(architecture[3:]), 32)
    return GPUTarget("hip", architecture, 64 if architecture.startswith("gfx9") else 32)


def compiled(module: Module, variant: Variant, architecture: str):
    """Compile a module with Triton; return the CompiledKernel, which has the source of all stages."""
    triton = imported()
    from triton.compiler import ASTSource

    signature, constants = module.signature(variant.wide), module.constants(variant.block)
    names = list(signature)
    source = ASTSource(fn=function_of(module.name, module.text), signature=signature,
                       constexprs={(names.index(name),): value for name, value in constants.items()},
                       attrs={(k,): ALIGNED for k in variant.aligned})
    options = {"num_warps": module.warps_of(variant.block), "enable_fp_fusion": False}
    if module.stages:
        options["num_stages"] = module.stages
    return triton.compile(source, target=target_of(architecture), options=options)


def binary(module: Module, variant: Variant, architecture: str) -> Binary:
    """Return the machine code of a module, from disk if another process has compiled it.  Unfit if Triton cannot
    compile it, or it needs more shared memory than the GPU has."""
    triton = imported()
    key = f"{triton.__version__}\n{architecture}\n{variant}\n{module}"
    found = cache.get("triton", key)
    if found is None:
        try:
            made = compiled(module, variant, architecture)
        except (RuntimeError, triton.errors.TritonError) as reason:
            if not isinstance(reason, triton.errors.TritonError) and not any(
                    words in str(reason).lower() for words in RESOURCES):
                raise
            raise Unfit(f"{module.name} is not compiled for {architecture}: {reason}") from reason
        code = made.asm["cubin" if "cubin" in made.asm else "hsaco"]
        found = encode((code, made.metadata.name, made.metadata.shared,
                              made.metadata.num_warps * target_of(architecture).warp_size,
                              getattr(made.metadata, "global_scratch_size", 0)))
        cache.put("triton", key, found)
    result = Binary(*decode(found))
    if result.scratch:
        raise Unfit(f"{module.name} needs {result.scratch} bytes of memory for each program: launches give none")
    most = SHARED.get(architecture, MOST_SHARED) << 10
    if result.shared > most:
            raise Unfit(f"{module.name} needs {result.shared} bytes of shared memory; {architecture} has {most}")
    return result
