"""PyTorch's ``torch._inductor`` names: the compiler, as a backend that other backends can call."""
from . import compile_fx

__all__ = ["aoti_compile_and_package", "aoti_load_package", "compile_fx", "list_mode_options", "list_options"]


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
        inductor_configs: options of ``list_options()``, in force while it is compiled.
        target: the processors that it is for: default that of this machine; names of ``x86-64-v2``, ``x86-64-v3``
          (AVX2), ``x86-64-v4`` (AVX-512) and ``x86-64-amx``, of which a package may have several, and the best one that
          a processor can run is taken when the model is created; ``aarch64-linux-gnu``;
          ``x86_64-pc-windows-msvc`` (AVX2); ``arm64-apple-darwin``; or ``wasm32``, a module of WebAssembly, beside
          which the package has a loader for browsers and Node, ``include/rushlight.mjs``.

    Returns the path.  RuntimeError for a program that cannot run without Python (random numbers, what only NumPy
    computes), or whose sizes vary.  The package is a zip with a shared object in it, whose interface is the C header
    beside it (docs/packages.md).

    >>> import rushlight as torch, tempfile, os
    >>> program = torch.export.export(torch.nn.Linear(3, 2).eval(), (torch.ones(4, 3),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = torch._inductor.aoti_compile_and_package(program, package_path=os.path.join(folder, "linear.pt2"))
    ...     model = torch._inductor.aoti_load_package(path)
    >>> model(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """
    import tempfile

    from .._src.capture.modes import chosen
    from .._src.core.settings import settings
    from .._src.packages import archive
    from .._src.devices.cpu.llvm.features import levels
    from .._src.packages.model import Model

    if package_path is None:
        package_path = tempfile.mkstemp(suffix=".pt2")[1]
    if not hasattr(package_path, "write") and not str(package_path).endswith(".pt2"):
        raise ValueError(f"package_path must end in .pt2, not {package_path}")
    options = chosen("inductor", None, inductor_configs)
    with settings.set(**{name: value for name, value in options.items() if name == "max_autotune"}):
        return archive.write(package_path, {"model": Model(exported_program, "model", levels(target))})


def aoti_load_package(path, run_single_threaded=False, device_index=-1):
    """A model of a package, as a function of its inputs.  Loading runs the package's machine code: do so with packages
    that you trust.

    ``run_single_threaded``: its kernels run on one thread.  RuntimeError for a file that is no package, is damaged, or
      is for another processor.
    """
    from .._src.packages.archive import Package
    from .._src.packages.loaded import Loaded

    made = Loaded(Package(path))
    if run_single_threaded:
        made.library.rl_threads(1)
    return made
