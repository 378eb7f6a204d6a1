"""PyTorch's ``torch._inductor`` names: the compiler, as a backend that other backends can call."""
from . import compile_fx

__all__ = ["aot_compile", "aoti_compile_and_package", "aoti_load_package", "compile_fx", "list_mode_options",
           "list_options"]


def list_mode_options(mode=None, dynamic=None) -> dict:
    """Return the options that a mode of ``compile`` sets, or {mode: options}.

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
        exported_program: the result of ``torch.export.export``; with ``dynamic_shapes``, the package takes
          all sizes within their bounds.
        package_path: the file to write, ending in ``.pt2``, or an open file; default a new temporary file.
        inductor_configs: options of ``list_options()``, in force while it is compiled; "aot_inductor.metadata",
          strings that ``get_metadata()`` returns with the manifest; other names of ``torch._inductor.config``
          change nothing.
        target: the CPUs to compile for, default that of this host; names of ``x86-64-v2``, ``x86-64-v3``
          (AVX2), ``x86-64-v4`` (AVX-512), ``x86-64-vnni`` (int8 and bfloat16 dot products) and
          ``x86-64-amx``, several of them in one package: the best one that the CPU supports is selected when
          the model is created; ``aarch64-linux-gnu``, ``aarch64-v8.6`` (dot products and small matmuls),
          ``aarch64-sve256`` and ``aarch64-sve512`` (SVE), in the same way;
          ``x86_64-pc-windows-msvc`` (AVX2); ``arm64-apple-darwin``; ``wasm32``, a WebAssembly module, for which
          the package has a loader for browsers and Node, ``include/rushlight.mjs``; or one GPU, ``cuda-sm_90``
          or ``hip-gfx942``, which need not be there: Triton compiles its kernels, and the package runs without Triton;
          for NVIDIA's in C, too, by ``include/rushlight_gpu.h``, for AMD's in Python only.

    Returns the path.  A program that cannot run without Python (random numbers, data-dependent branches and sizes,
    operators with only a NumPy implementation) is packaged, with a warning, as a program that only Python runs.
    RuntimeError for such a program with a ``target``; for a GPU also with dynamic shapes, if the host would run a
    part, or without Triton.  ValueError for another target.  The package is a zip file with a shared object and the C
    header of its interface (docs/packages.md); for a GPU with a file for each kernel.

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
    """Compiles a program of ``torch.fx``, such as ``ExportedProgram.module()``, into a shared object that runs
    without Python, with its package next to it: ``model.so`` and ``model.pt2``.  C reads the weights of the package,
    Python all of it.

    ``args``, ``kwargs``: an example; sizes are dynamic as in the exported program.  ``options``: as
    ``inductor_configs`` of ``aoti_compile_and_package``; "aot_inductor.output_path": the shared object, or the
    directory that it is written to. Returns the path of the shared object; with "aot_inductor.package" the list of
    files, for ``torch._inductor.package.package_aoti``.  RuntimeError for a program that cannot run without Python.

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
      default the current one.  ``level``: the CPU level whose code runs, if
      the package has several; default the last one that this CPU supports.  RuntimeError for a file
      that is no package, is damaged, or is for another CPU; ValueError for a level that it does not have.
    """
    from .._src.packages.archive import Package
    from .opening import open_model
    return open_model(Package(path), "", run_single_threaded, device_index, level)
