"""Programs of what ``trace`` was given: exported for its examples, written to files that need none of its classes, and
modules that run what such a file has."""
from __future__ import annotations

import io
import json
import os
import zipfile

from .._src.archives import Archive, folder_of
from .._src.compiling import compile as compiled
from .._src.core.advice import warn
from .._src.core.files import replaced
from .._src.core.native import Tensor
from .._src.core.pytree import tree_flatten, tree_leaves, tree_map
from .._src.flat import cat
from ..amp.autocast import autocast, get_autocast_dtype, is_autocast_enabled
from ..export import Dim, Exporting
from ..export.calling import GuardFailed, Guards
from ..export.files.programs import load as read_program
from ..export.files.programs import write as write_program
from ..export.shape_entries import LeafEntries
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from .kinds import TracerWarning
from .script import RecursiveScriptModule
from .trace_graph import TraceGraph

FORMAT, RECORD, EXTRA = "rushlight.jit", "jit.json", "extra/"
DEVICES = ("cpu", "cuda")
UNFIT = (RuntimeError, ValueError, TypeError, NotImplementedError)  # what exporting a program that fits no graph raises


class Function(Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.forward = function


class Example:
    """What ``trace`` ran a program on: arguments, and the dtypes that autocast had, {type of device: dtype}."""

    def __init__(self, args: tuple, kwargs: dict):
        self.args, self.kwargs = args, kwargs
        self.casts = {kind: get_autocast_dtype(kind) for kind in DEVICES if is_autocast_enabled(kind)}

    def run(self, function, *args, **kwargs):
        """Calls a function under autocast as it was then."""
        for kind, dtype in self.casts.items():
            function = autocast(kind, dtype)(function)
        return function(*args, **kwargs)

    def programs(self, module: Module) -> list:
        """Return the module's ExportedPrograms: one for the example, as dynamic as the module allows; if tensors have
        a first size of 1, which needs separate programs, also one for larger sizes."""
        training = module.training
        made = [self.exported(module, self.args, self.kwargs)]
        if any(map(is_single, tree_leaves((self.args, self.kwargs)))):
            more = tree_map(lambda leaf: cat([leaf, leaf]) if is_single(leaf) else leaf, (self.args, self.kwargs))
            try:
                made.append(self.exported(module, *more))
            except (RuntimeError, ValueError, TypeError, IndexError):
                pass  # sizes of 1 are what the module takes
        module.training = training
        return made

    def programs_of_function(self, function) -> list:
        """``programs`` of a function."""
        return self.programs(Function(function))

    def graph(self, module: Module) -> TraceGraph:
        """Return the operators that a module calls on the example, as TorchScript shows them."""
        training = module.training
        made = self.run(lambda: TraceGraph(Exporting(module, self.args, self.kwargs, None, (), True).program()))
        module.training = training
        return made

    def graph_of_function(self, function) -> TraceGraph:
        """``graph`` of a function."""
        return self.graph(Function(function))

    def runner(self, module: Module) -> TraceRunner | None:
        """Return the function that replaces a traced module's Python.  None, with a warning, for a module that does
        not fit one graph, such as one with data-dependent branches."""
        try:
            return TraceRunner(self.programs(module))
        except UNFIT as reason:
            warn(f"{type(module).__name__} is traced as Python that runs at each call, since it fits no one graph: "
                 f"{str(reason).partition(chr(10))[0]}", TracerWarning)
            return None

    def runner_of_function(self, function):
        """``runner`` of a function."""
        return self.runner(Function(function))

    def exported(self, module, args, kwargs):
        """The program for these arguments."""
        shapes = LeafEntries(dict.fromkeys(range(leaf.dim()), Dim.AUTO) if isinstance(leaf, Tensor) else None
                             for leaf in tree_leaves((args, kwargs)))
        return self.run(lambda: Exporting(module, args, kwargs, shapes, (), True).program())


class TraceRunner:
    """Runs the programs of a trace: the first one that takes the inputs, with the state that the module has now."""

    def __init__(self, programs: list):
        self.programs = programs
        self.runs = [(program.in_spec, guards_of(program), program.module(check_guards=False)) for program in programs]

    def find(self, args, kwargs):
        """The program for these inputs as a module; None where they are nested otherwise than the example, or have
        sizes or dtypes that no program was made for."""
        leaves, spec = tree_flatten((args, kwargs))
        for wanted, guards, run in self.runs:
            if spec == wanted:
                try:
                    guards(*leaves)
                    return run
                except GuardFailed:
                    continue
        return None

    @staticmethod
    def take_state(run, module):
        """Has a program read the parameters and buffers of a module, which may be others than when it was traced."""
        run._modules.update(module._modules)
        run._parameters.update(module._parameters)
        run._buffers.update(module._buffers)


def guards_of(program) -> Guards:
    return Guards(program.expected, program.graph_signature.user_inputs, program.conditions)


def is_single(leaf) -> bool:
    return isinstance(leaf, Tensor) and leaf.dim() > 0 and leaf.shape[0] == 1


# --- files ------------------------------------------------------------------------------------------------------------
def write(programs: list, f, facts: dict, extra_files: dict):
    """Writes programs of one module, which share its state, to a path or an open file.  SerializeError for what no file
    has, before anything is written."""
    texts = []
    for number, program in enumerate(programs):
        held = io.BytesIO()
        write_program(program if not number else without_state(program), held, "archive", {})
        texts.append(held.getvalue())

    def put(file, folder):
        with Archive(file, folder) as archive:
            archive.write("archive_format", FORMAT)
            archive.write(RECORD, json.dumps({**facts, "programs": len(texts)}))
            for number, text in enumerate(texts):
                archive.write(f"programs/{number}.pt2", text)
            for name, content in extra_files.items():
                archive.write(EXTRA + name, content)

    if hasattr(f, "write"):
        return put(f, "archive")
    with replaced(f) as file:
        put(file, folder_of(os.fspath(f)))


def without_state(program):
    return program._update(program.graph_module, program.graph_signature, state_dict={})


def folder_in(f) -> str | None:
    """Return the directory in an open archive that ``write`` wrote; None for other files, whose position is kept."""
    start = f.tell()
    try:
        with zipfile.ZipFile(f) as archive:
            heads = [name.removesuffix(RECORD) for name in archive.namelist() if name.endswith(f"/{RECORD}")]
            return heads[0] if heads and archive.read(f"{heads[0]}archive_format") == FORMAT.encode() else None
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, LookupError, NotImplementedError):
        return None  # the next reader reports the error
    finally:
        f.seek(start)


def read(f, map_location=None, extra_files=None) -> LoadedProgram:
    """The module in an open file that ``write`` wrote; nothing in it can call anything but operators.  RuntimeError for
    a damaged one."""
    folder = folder_in(f)
    with zipfile.ZipFile(f) as archive:
        try:
            facts = json.loads(archive.read(folder + RECORD))
            programs: list = []
            for number in range(int(facts["programs"])):
                held = io.BytesIO(archive.read(f"{folder}programs/{number}.pt2"))
                programs.append(read_program(held, state=programs[0].state_dict if programs else None))
            made = LoadedProgram(programs, str(facts["name"]), bool(facts["training"]))
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, zipfile.BadZipFile) as error:
            raise RuntimeError(f"jit.load cannot read this file, which is damaged: {error}") from error
        for name in extra_files or ():
            place = f"{folder}{EXTRA}{name}"
            extra_files[name] = archive.read(place) if place in archive.namelist() else b""
    return made if map_location is None else made.to(map_location)


def restored(data: bytes) -> LoadedProgram:
    """The module in the bytes of a file."""
    return read(io.BytesIO(data))


class LoadedProgram(RecursiveScriptModule):
    """A module that runs ``programs``, the first of those that take its inputs; they share its state.  Whether it
    trains changes nothing of what they compute."""

    def __init__(self, programs: list, name: str, training: bool):
        super().__init__()
        self.__dict__.update(programs=programs, name=name)
        self.__dict__["runs"] = [(guards_of(program), program.module(check_guards=False)) for program in programs]
        first = programs[0]
        buffers, kept = set(first.graph_signature.buffers), set(first.state_dict)
        named = {key: value for program in programs[::-1] for key, value in program.constants.items()}
        for path, value in {**named, **first.state_dict}.items():
            *parts, last = path.split(".")
            owner = self
            for part in parts:
                if part not in owner._modules:
                    owner.add_module(part, Module())
                owner = owner._modules[part]
            if isinstance(value, Parameter):
                owner.register_parameter(last, value)
            elif path in buffers:
                owner.register_buffer(last, value, persistent=path in kept)
            else:
                owner.__dict__[last] = value
        for _, run in self.runs:
            run._modules.update(self._modules)
        self.train(training)

    original_name = property(lambda self: self.name)

    def forward(self, *args, **kwargs):
        """RuntimeError for inputs that it was not traced for: of another dtype, or of sizes that its program needs as
        they were."""
        leaves, refused = tree_leaves((args, kwargs)), None
        for guards, run in self.runs:
            try:
                guards(*leaves)
            except GuardFailed as reason:
                refused = refused or reason
                continue
            if isinstance(run, Module):  # what replaced a tensor of this module replaced it for the program
                run._parameters.update(self._parameters)
                run._buffers.update(self._buffers)
            return run(*args, **kwargs)
        raise refused

    def compile_with(self, options: dict):
        """Compile its programs, with the current state."""
        runs = []
        for guards, run in self.runs:
            run._parameters.update(self._parameters)
            run._buffers.update(self._buffers)
            runs.append((guards, compiled(run, options=options)))
        self.__dict__["runs"] = runs

    def train(self, mode=True):
        for module in self.modules():
            module.__dict__["training"] = mode
        return self

    graph = property(lambda self: TraceGraph(self.programs[0]))
    code = property(lambda self: self.programs[0].graph_module.code)

    def _save_to(self, f, extra_files):
        state = self.state_dict(keep_vars=True)
        first, *others = self.programs
        buffers = dict(self.named_buffers())
        constants = {key: buffers.get(key, value) for key, value in first.constants.items()}
        first = first._update(first.graph_module, first.graph_signature, constants=constants,
                              state_dict={key: state[key] for key in first.state_dict})
        write([first, *others], f, {"name": self.name, "training": self.training}, extra_files)

    def __reduce__(self):
        held = io.BytesIO()
        self._save_to(held, {})
        return restored, (held.getvalue(),)

    def __deepcopy__(self, memo):
        made, parts = self.__reduce__()
        return made(*parts)

    def __repr__(self):
        return Module.__repr__(self)

    def _get_name(self):
        return f"RecursiveScriptModule(original_name={self.name})"
