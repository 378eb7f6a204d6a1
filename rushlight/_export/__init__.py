"""PyTorch's ``torch._export``: compiling ahead of time to a shared object, by its earlier names."""
from __future__ import annotations

__all__ = ["aot_compile", "aot_load"]


def aot_compile(f, args: tuple, kwargs=None, *, dynamic_shapes=None, options=None, remove_runtime_assertions=False,
                disable_constraint_solver=False, same_signature=True):
    """Exports a module or a function, and compiles it as ``torch._inductor.aot_compile`` does.

    >>> import rushlight as torch
    >>> path = aot_compile(torch.nn.Linear(3, 2).eval(), (torch.ones(4, 3),))
    >>> aot_load(path, "cpu")(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """
    from .._inductor import aot_compile as compiled
    from ..export import export
    from ..nn import Module
    if not isinstance(f, Module):
        module = Module()
        module.forward = f
        f = module
    program = export(f, tuple(args), kwargs, dynamic_shapes=dynamic_shapes)
    return compiled(program.module(), args, kwargs, options=options)


def aot_load(so_path: str, device: str):
    """Return the model of a shared object that ``aot_compile`` wrote, with its package next to it.  Its code is run:
    load only files that you trust.  RuntimeError without the package, and for a device other than the CPU."""
    import os

    from .._inductor import aoti_load_package
    package = os.fspath(so_path).removesuffix(".so") + ".pt2"
    if not os.path.exists(package):
        raise RuntimeError(f"{so_path} is not next to its package {package}, which aot_compile wrote with it; a shared "
                           "object of PyTorch's AOTInductor needs PyTorch's C++ library, so only PyTorch runs it")
    model = aoti_load_package(package)
    own = model.get_metadata()["AOTI_DEVICE_KEY"]
    if str(device).partition(":")[0] != own:
        raise RuntimeError(f"Unsupported device {device}: {so_path} is for {own}")
    return model
