"""PyTorch's ``torch._inductor`` names: the compiler, as a backend that other backends can call."""
from . import compile_fx

__all__ = ["aot_compile", "aoti_compile_and_package", "aoti_load_package", "compile_fx", "list_mode_options",
           "list_options"]


def list_mode_options(mode=None, dynamic=None) -> dict:
    """What the modes of ``compile`` set: of one mode, or {mode: options}.

    >>> import rushlight as torch
    >>> torch._inductor.list_mode_options("max-autotune")
    {'max_autotune': True, 'launch_graphs': True}
    """
    from .._src.capture.modes import MODES
    return dict(MODES[mode]) if mode else {name: dict(options) for name, options in MODES.items()}


def list_options() -> list:
    """The names that ``compile(options=...)`` knows."""
    from .._src.capture.modes import OPTIONS, WITHOUT_MEANING
    return sorted((*OPTIONS, *WITHOUT_MEANING))


def aoti_compile_and_package(exported_program, _deprecated_unused_args=None, _deprecated_unused_kwargs=None, *,
                             package_path=None, inductor_configs=None, target=None) -> str:
    """Compiles an exported program into a package that runs without Python.

    Args:
        exported_program: what ``torch.export.export`` gave; where sizes vary (``dynamic_shapes``), the package takes
          all of them within their bounds.
        package_path: the file to write, ending in ``.pt2``, or an open file; default a new file beside the system's
          temporary ones.
        inductor_configs: options of ``list_options()``, in force while it is compiled; "aot_inductor.metadata", texts
          that ``get_metadata()`` tells with the manifest; other names of ``torch._inductor.config`` change nothing.
        target: the processors that it is for: default that of this machine; names of ``x86-64-v2``, ``x86-64-v3``
          (AVX2), ``x86-64-v4`` (AVX-512), ``x86-64-vnni`` (its dot products of bytes and of bfloats) and
          ``x86-64-amx``, of which a package may have several, and the best one that a processor can run is taken when
          the model is created; ``aarch64-linux-gnu``, ``aarch64-v8.6`` (dot products and products of small matrices),
          ``aarch64-sve256`` and ``aarch64-sve512`` (SVE), in the same way;
          ``x86_64-pc-windows-msvc`` (AVX2); ``arm64-apple-darwin``; ``wasm32``, a module of WebAssembly, beside
          which the package has a loader for browsers and Node, ``include/rushlight.mjs``; or one GPU, ``cuda-sm_90``
          or ``hip-gfx942``, which need not be there: Triton compiles its kernels, and the package runs without Triton;
          for NVIDIA's in C, too, by ``include/rushlight_gpu.h``, for AMD's in Python only.

    Returns the path.  A program that cannot run without Python (random numbers, branches and sizes by data, what only
    NumPy computes) is packaged, with a warning, as a program that Python alone runs; RuntimeError for such a program
    and a ``target``; for a GPU, too, where sizes vary, where the host would have a part, or without Triton.  ValueError
    for another target.  The package is a zip with a shared object in it, whose interface is the C header beside it
    (docs/packages.md); for a GPU with a file for each kernel.

    >>> import rushlight as torch, tempfile, os
    >>> program = torch.export.export(torch.nn.Linear(3, 2).eval(), (torch.ones(4, 3),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = torch._inductor.aoti_compile_and_package(program, package_path=os.path.join(folder, "linear.pt2"))
    ...     model = torch._inductor.aoti_load_package(path)
    >>> model(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """
    import tempfile

    from .package import packaged
    if package_path is None:
        package_path = tempfile.mkstemp(suffix=".pt2")[1]
    if not hasattr(package_path, "write") and not str(package_path).endswith(".pt2"):
        raise ValueError(f"package_path must end in .pt2, not {package_path}")
    return packaged({"model": exported_program}, package_path, inductor_configs, target)


def aot_compile(gm, args: tuple, kwargs=None, *, options=None):
    """Compiles a program of ``torch.fx``, such as ``ExportedProgram.module()``, into a shared object that runs without
    Python, with its package beside it: ``model.so`` and ``model.pt2``, of which C reads weights and Python all.

    ``args``, ``kwargs``: an example; sizes vary as the exported program lets them.  ``options``: as
    ``inductor_configs`` of ``aoti_compile_and_package``; "aot_inductor.output_path": the shared object, or the folder
    that it is written to.
    Gives the path of the shared object; with "aot_inductor.package" the list of files, for
    ``torch._inductor.package.package_aoti``.  RuntimeError for a program that cannot run without Python.

    >>> import rushlight as torch
    >>> program = torch.export.export(torch.nn.Linear(3, 2).eval(), (torch.ones(4, 3),))
    >>> path = torch._inductor.aot_compile(program.module(), (torch.ones(4, 3),))
    >>> torch._export.aot_load(path, "cpu")(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """
    from .package import compiled_files
    files = compiled_files(gm, args, kwargs, options)
    return files if (options or {}).get("aot_inductor.package") else files[0]


def aoti_load_package(path, run_single_threaded=False, device_index=-1, *, level=None):
    """A model of a package, as a function of its inputs.  Loading runs the package's machine code: do so with packages
    that you trust.

    ``run_single_threaded``: its kernels run on one thread.  ``device_index``: the GPU that a package for GPUs runs on,
      default the current one.  ``level``: the code of this one of the processors that it
      was packaged for, where these are several; default the last one that this processor is.  RuntimeError for a file
      that is no package, is damaged, or is for another processor; ValueError for a level that it does not have.
    """
    from .._src.packages.archive import Package
    from .opening import open_model
    return open_model(Package(path), "", run_single_threaded, device_index, level)
