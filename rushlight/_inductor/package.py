"""PyTorch's ``torch._inductor.package``: packages of several models, and shared objects next to their packages."""
from __future__ import annotations

import copy
import os
import tempfile

from .._src.capture.modes import OPTIONS, WITHOUT_MEANING, chosen
from .._src.core.advice import warn
from .._src.core.settings import settings
from .._src.devices.cpu.llvm.features import levels
from .._src.packages import archive
from .._src.packages.interface import gpus
from .._src.packages.kept import model_of
from .._src.packages.tracing import NotPackable
from ..export import ExportedModule, export
from ..export.files.fields import SerializeError
from ..export.files.programs import identity
from ..export.shape_entries import LeafEntries
from . import config
from .opening import open_model
from .python_models import PythonModel

__all__ = ["load_package", "package_aoti"]

METADATA, PLACE = "aot_inductor.metadata", "aot_inductor.output_path"
made: dict = {}  # path of a package that ``compiled_files`` wrote: (program, options)


def options_of(configs) -> tuple:
    """Return (settings, metadata) of ``inductor_configs``.  RuntimeError for names that neither Rushlight nor PyTorch
    has, TypeError for metadata that are not strings."""
    configs = dict(configs or {})
    metadata = configs.pop(METADATA, None) or {}
    if not all(type(one) is str for pair in metadata.items() for one in pair):
        raise TypeError(f"{METADATA} is a dict of strings, not {metadata!r}")
    ours = {name: value for name, value in configs.items() if name in (*OPTIONS, *WITHOUT_MEANING)
            or not is_theirs(name)}
    found = chosen("inductor", None, ours)
    return {name: value for name, value in found.items() if name == "max_autotune"}, metadata


def is_theirs(name: str) -> bool:
    """Whether PyTorch's compiler has a setting of this name."""
    value = config
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            return False
    return True


def packaged(programs: dict, target, configs=None, processors=None, needs_library=False):
    """Write exported programs, by name, as one package to a path or open file, and return it.  ``processors``: target
    CPUs.  A program without a shared object is packaged as one that Python runs, with a warning, unless the caller
    passes processors or ``needs_library``."""
    chosen_settings, metadata = options_of(configs)
    with settings.set(**chosen_settings):
        models = {}
        for name, program in programs.items():
            if gpus(processors):
                from .._src.packages.boards import BoardModel, architecture_of
                models[name] = BoardModel(program, name, architecture_of(processors))
            elif processors or needs_library:
                models[name] = model_of(program, name, identity(program), levels(processors))
            else:
                models[name] = native_or_python_model(program, name)
        return archive.write(target, models, metadata)


def native_or_python_model(program, name: str):
    """A model with a shared object for this CPU, or the PythonModel of a program that cannot have one.  NotPackable
    for a program that has neither: it calls operators that no file of a program has."""
    try:
        return model_of(program, name, identity(program), levels(None))
    except NotPackable as reason:
        try:
            made = PythonModel(program, name, str(reason), settings.max_autotune)
        except SerializeError:
            raise reason from None
        warn(f"the model {name!r} is packaged as a program that runs in Python only, not in C: {reason}")
        return made


def compiled_files(gm, args, kwargs, options) -> list:
    """Return the shared object of a program and its package."""
    place = os.fspath((options or {}).get(PLACE) or tempfile.mkdtemp(prefix="rushlight"))
    library = place if place.endswith(".so") else os.path.join(place, "model.so")
    os.makedirs(os.path.dirname(os.path.abspath(library)), exist_ok=True)
    package, program = library.removesuffix(".so") + ".pt2", exported(gm, args, kwargs)
    packaged({"model": program}, package, options, needs_library=True)
    with open(library, "wb") as file:
        file.write(archive.Package(package).image("model"))
    made[os.path.abspath(package)] = program, options
    return [library, package]


def exported(gm, args, kwargs):
    """Export a module for an example; a module that was exported before keeps its dynamic sizes."""
    guards, shapes = gm._modules.get("_guards_fn"), None
    if guards is not None:
        shapes = LeafEntries(free.get(None, free) or None for _, _, free in guards.expected)
        graph = copy.deepcopy(gm.graph)
        graph.set_codegen(gm.graph._codegen)
        for node in graph.find_nodes(op="call_module", target="_guards_fn"):
            graph.erase_node(node)  # what it checks, the new program does
        gm = ExportedModule(gm, graph, "GraphModule")
    return export(gm, tuple(args), kwargs, dynamic_shapes=shapes)


def package_aoti(archive_file, aoti_files):
    """Writes one package with several models, which ``load_package`` selects by name.

    ``aoti_files``: {name: what ``aot_compile`` gave with "aot_inductor.package", in this process}; a list is of the one
    model "model".  ValueError for other files.

    >>> import rushlight as torch, tempfile, os
    >>> net, x = torch.nn.Linear(3, 2).eval(), torch.ones(4, 3)
    >>> options = {"aot_inductor.package": True}
    >>> files = torch._inductor.aot_compile(torch.export.export(net, (x,)).module(), (x,), options=options)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = package_aoti(os.path.join(folder, "two.pt2"), {"first": files, "second": files})
    ...     model = load_package(path, "second")
    >>> model(x).shape
    torch.Size([4, 2])
    """
    named = aoti_files if isinstance(aoti_files, dict) else {"model": aoti_files}
    programs, configs = {}, {}
    for name, files in named.items():
        found = [made[path] for path in map(os.path.abspath, [files] if isinstance(files, str) else files)
                 if path in made]
        if not found:
            raise ValueError(f"the files of {name!r} are none that aot_compile gave in this process with "
                             f"'aot_inductor.package': {files}")
        programs[name], configs = found[0][0], {**configs, **(found[0][1] or {})}
    return packaged(programs, archive_file, configs)


def load_package(path, model_name="model", run_single_threaded=False, num_runners=1, device_index=-1):
    """A model of a package, as a function of its inputs; its code is run: do so with packages that you trust.
    RuntimeError for a model that the package does not have, and for what ``aoti_load_package`` refuses."""
    return open_model(archive.Package(path), model_name, run_single_threaded, device_index)
