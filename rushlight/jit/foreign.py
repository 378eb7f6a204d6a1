"""TorchScript files that PyTorch wrote, as modules: their code is read, never executed as Python."""
from __future__ import annotations

import ast
import copy
import collections
import functools
import io
import pickle

from .._src.locations import Places
from .._src.core.native import Tensor
from .._src.weights import WeightsUnpickler, modern, refuse as refuse_pickle, shallow
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ..serialization import ALLOWED, Storages, byte_order, entry, opened
from .foreign_code import CodeError, Function, Maker, Scripted, ScriptObject, named_tuple, parsed, words
from .script import ScriptModule

LISTS = {("torch.jit._pickle", name): list for name in ("build_intlist", "build_doublelist", "build_boollist",
                                                         "build_tensorlist")}
TAGGED = (("torch.jit._pickle", "restore_type_tag"),)  # what says the type of a container
MOST = 64 << 20  # bytes of a source or a pickle
SOURCES, WORDS = 2 << 20, 250_000  # bytes of all sources; words and signs in them
RATIO = 200  # of an entry's real size to its size in the file, from a MiB on
# what makes objects that no file of this kind has
FOREIGN = {name: found for name, found in {**ALLOWED, **LISTS}.items() if name not in (
    ("torch._tensor", "_rebuild_from_type_v2"), ("rushlight.nested.tensor", "restored"))}
FOREIGN["collections", "OrderedDict"] = collections.OrderedDict


def is_foreign(archive, prefix) -> bool:
    """Whether an archive is one that PyTorch's ``jit.save`` wrote."""
    return f"{prefix}constants.pkl" in archive.namelist()


class Kind:
    """A class of a file: its parameters, buffers and methods by name."""

    def __init__(self, name, tree: ast.ClassDef, unit):
        self.name, self.unit, self.lists, self.methods, self.constants = name, unit, {}, {}, {}
        self.is_module = any(isinstance(b, ast.Name) and b.id == "Module" for b in tree.bases)
        for part in tree.body:
            if isinstance(part, ast.FunctionDef):
                self.methods[part.name] = Function(part, unit)
            elif isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name) and isinstance(part.value,
                                                                                                      ast.List):
                self.lists[part.targets[0].id] = [e.value for e in part.value.elts if isinstance(e, ast.Constant)]
            elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                if part.value is not None:
                    self.constants[part.target.id] = unit.maker.literal(part.value)({})
            elif not isinstance(part, (ast.Pass, ast.Assign)):
                raise CodeError(f"the class {name} of the file has a {type(part).__name__}")

    def __call__(self, *args, **kwargs):
        """A new object of a class that is no module."""
        made = ScriptObject(self)
        if "__init__" in self.methods:
            self.methods["__init__"](made, *args, **kwargs)
        return made


class Unit:
    """The code and the constants of one file."""

    def __init__(self, archive, prefix, storages):
        self.archive, self.prefix, self.known, self.sources = archive, prefix, {}, {}
        self.raised: Exception | None = None  # by code that ran while the file was read
        self.read, self.words, self.parameters = 0, 0, {}  # bytes and words of sources; parameters by their memory
        self.wanted: list = []  # paths that code refers to
        self.maker, self.names = Maker(self), set(archive.namelist())
        self.constants = self.pickle("constants.pkl", storages)
        if not isinstance(self.constants, (tuple, list)):
            raise CodeError("the constants of the file are no tuple")

    def text(self, name) -> bytes:
        if f"{self.prefix}{name}" not in self.names:
            raise CodeError(f"the file has no entry {name}")
        size = self.archive.getinfo(self.prefix + name).file_size
        if size > MOST:
            raise CodeError(f"the entry {name} has {size} bytes, which is too much")
        return bytes(entry(self.archive, self.prefix + name))

    def pickle(self, name, storages):
        return Objects(io.BytesIO(self.text(name)), storages, self).load()

    def constant(self, name):
        """``CONSTANTS.c5``"""
        if not name[:1] == "c" or not name[1:].isdecimal() or int(name[1:]) >= len(self.constants):
            raise CodeError(f"the file has no constant {name}")
        return self.constants[int(name[1:])]

    def source(self, module):
        """{name: tree} of what one source defines."""
        if module not in self.sources:
            path = "code/" + module.replace(".", "/") + ".py"
            text = self.text(path)
            self.read += len(text)
            if self.read > SOURCES:
                raise CodeError(f"the sources of the file have more than {SOURCES} bytes")
            self.words += words(text.decode("utf-8"))
            if self.words > WORDS:
                raise CodeError(f"the sources of the file have more than {WORDS} words and signs")
            tree = parsed(text.decode("utf-8"))
            self.sources[module] = {part.name: part for part in tree.body
                                    if isinstance(part, (ast.ClassDef, ast.FunctionDef))}
        return self.sources[module]

    def find(self, path):
        """The class or function of a path ``__torch__.a.b.Name``."""
        if path not in self.known:
            module, _, name = path.rpartition(".")
            tree = self.source(module).get(name)
            if tree is None:
                raise CodeError(f"the file has no {path}")
            if isinstance(tree, ast.FunctionDef):
                self.known[path] = Function(tree, self)
            elif any(isinstance(b, ast.Name) and b.id == "NamedTuple" for b in tree.bases):
                self.known[path] = named_tuple(tree)
            else:
                self.known[path] = Kind(path, tree, self)
        return self.known[path]

    def named(self, path):
        """Return a resolver of a path, which runs at the call because code may refer to later definitions."""
        self.wanted.append(path)
        return lambda: self.find(path)

    def finish(self):
        """Reads all code that is referred to, so that the file is needed no more."""
        while self.wanted:
            self.find(self.wanted.pop())
        self.archive = None
        self.parameters.clear()

    def parameter(self, value):
        """A tensor as a parameter: one for all that have the same memory, shape and strides, as tied weights do."""
        place = value.data_ptr() if value.device.provider.has_data else 0
        if not place or self.archive is None:
            return Parameter(value.detach(), value.requires_grad)
        key = place, value.dtype, tuple(value.shape), tuple(value.stride()), value.requires_grad
        found = self.parameters.get(key)
        if found is None:
            found = self.parameters[key] = Parameter(value.detach(), value.requires_grad)
        return found


class Objects(WeightsUnpickler):
    """Reads the pickle of a file: tensors, containers, and objects of its classes."""

    dispatch = dict(WeightsUnpickler.dispatch)

    def __init__(self, file, storages, unit):
        super().__init__(file, storages, FOREIGN)
        self.unit = unit

    def find_class(self, module, name):
        if module == "__torch__" or module.startswith("__torch__."):
            found = self.unit.find(f"{module}.{name}")
            if isinstance(found, Function):
                refuse_pickle(f"it makes an object of the function {name}")
            return found
        if (module, name) in LISTS or (module, name) in TAGGED:
            return LISTS.get((module, name), TAGGED)
        found = FOREIGN.get(modern(module, name))
        if found is None:
            refuse_pickle(f"it refers to {module}.{name}, which no TorchScript file needs")
        return found

    def users(self, found) -> bool:
        """Nothing: what is allowed for checkpoints does not hold for programs."""
        return False

    def load_newobj(self):
        found = self.stack[-2]
        if not isinstance(found, Kind):
            return super().load_newobj()
        self.stack.pop()
        self.stack[-1] = LoadedModule(found) if found.is_module else ScriptObject(found)

    def load_build(self):
        target = self.stack[-2]
        if not isinstance(target, (LoadedModule, ScriptObject)):
            return super().load_build()
        state = self.stack.pop()
        if "__setstate__" in target.kind.methods:
            try:
                return target.kind.methods["__setstate__"](target, state)
            except Exception as error:
                self.unit.raised = error
                raise
        if not isinstance(state, dict) or not all(isinstance(k, str) for k in state):
            refuse_pickle("the state of an object is no dict of names")
        for name, value in state.items():
            target.set_script_attribute(name, value)

    def load_reduce(self):
        found = self.stack[-2]
        if isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields"):
            args = self.stack.pop()
            shallow(args)
            if type(args) is not tuple or len(args) != len(found._fields):
                refuse_pickle("a named tuple has another number of parts")
            self.stack[-1] = found(*args)
        elif found is TAGGED:
            args = self.stack.pop()
            if type(args) is not tuple or len(args) != 2:
                refuse_pickle("a value with a type has other parts")
            self.stack[-1] = args[0]
        elif found is list:
            args = self.stack.pop()
            if type(args) is not tuple or len(args) != 1 or type(args[0]) is not list:
                refuse_pickle("it makes a list of what is none")
            self.stack[-1] = args[0]
        else:
            super().load_reduce()


Objects.dispatch.update({pickle.NEWOBJ[0]: Objects.load_newobj, pickle.BUILD[0]: Objects.load_build,
                         pickle.REDUCE[0]: Objects.load_reduce})


class LoadedModule(ScriptModule, Scripted):
    """A module of a TorchScript file: its parameters, buffers, submodules and attributes, and its methods."""

    def __init__(self, kind: Kind):
        super().__init__()
        self.__dict__["kind"], self.__dict__["script"] = kind, {}

    original_name = property(lambda self: self.kind.name.rpartition(".")[2])

    def script_attribute(self, name):
        """Return the object of a name for code of the file."""
        for place in ("_parameters", "_buffers", "_modules", "script"):
            if name in self.__dict__[place]:
                return self.__dict__[place][name]
        kind = self.__dict__["kind"]
        if name == "training":
            return self.training
        if name in kind.constants:
            return kind.constants[name]
        raise CodeError(f"a module of the class {kind.name} has no attribute {name!r}")

    def set_script_attribute(self, name, value):
        """Sets what code of the file finds by a name."""
        lists, here = self.kind.lists, self.__dict__
        if name == "training":
            here["training"] = bool(value)
        elif name in lists.get("__parameters__", ()) and (value is None or isinstance(value, Tensor)):
            here["_parameters"][name] = None if value is None else self.kind.unit.parameter(value)
        elif name in lists.get("__buffers__", ()) and (value is None or isinstance(value, Tensor)):
            here["_buffers"][name] = value
        elif isinstance(value, LoadedModule):
            here["_modules"][name] = value
        else:
            here["script"][name] = value

    def __call__(self, *args, **kwargs):
        return Module.__call__(self, *args, **kwargs)

    def forward(self, *args, **kwargs):
        if "forward" not in self.kind.methods:
            raise NotImplementedError(f"the file's class {self.kind.name} has no forward")
        return self.kind.methods["forward"](self, *args, **kwargs)

    def __getattr__(self, name):
        kind = self.__dict__.get("kind")
        if kind is not None and (name in self.__dict__["script"] or name in kind.constants):
            return self.script_attribute(name)
        if kind is not None and name in kind.methods:
            return functools.partial(kind.methods[name], self)
        return Module.__getattr__(self, name)

    def __setattr__(self, name, value):
        if name in self.__dict__.get("script", ()):
            self.__dict__["script"][name] = value
        else:
            Module.__setattr__(self, name, value)

    def save(self, f, **kwargs):
        raise NotImplementedError("a module of a TorchScript file is saved by torch.export, or by its state_dict()")

    def train(self, mode=True):
        return Module.train(self, mode)

    def __reduce__(self):
        raise TypeError("a module of a TorchScript file cannot be pickled: keep the file, or save its state_dict()")

    def __deepcopy__(self, memo):
        made = memo[id(self)] = object.__new__(type(self))
        made.__dict__.update((key, value if key == "kind" else copy.deepcopy(value, memo))
                             for key, value in self.__dict__.items())
        return made

    def __repr__(self):
        return Module.__repr__(self)

    def _get_name(self):
        return f"RecursiveScriptModule(original_name={self.original_name})"


def sized(archive):
    """Raise RuntimeError for an archive whose small file would fill memory."""
    held = 0
    for info in archive.infolist():
        held += info.compress_size
        if info.file_size > max(1 << 20, RATIO * info.compress_size):
            raise RuntimeError(f"the entry {info.filename} has {info.compress_size} bytes in the file, and "
                               f"{info.file_size} in memory, which is too much")
    if held > archive.start_dir:
        raise RuntimeError("the entries of the file overlap")


def load(file, map_location=None, extra_files=None):
    """The module in an open TorchScript file.  RuntimeError for one that is damaged, or that has code outside of the
    language."""
    archive, prefix = opened(file)
    if not is_foreign(archive, prefix):
        raise RuntimeError("the file holds no TorchScript")
    sized(archive)
    storages = Storages(archive, f"{prefix}data/", Places(map_location), byte_order(archive, prefix))
    constants = Storages(archive, f"{prefix}constants/", Places(map_location), byte_order(archive, prefix))
    unit = None
    try:
        unit = Unit(archive, prefix, constants)
        found = unit.pickle("data.pkl", storages)
        unit.finish()
    except (RuntimeError, MemoryError, pickle.UnpicklingError, NotImplementedError):
        raise
    except Exception as error:  # of reading it, nothing but the file's own bytes can have caused it
        if unit is not None and error is unit.raised:
            raise
        raise RuntimeError(f"the TorchScript file is damaged: {type(error).__name__}: {error}") from error
    if not isinstance(found, LoadedModule):
        raise RuntimeError("the TorchScript file holds no module")
    for name in extra_files or ():
        place = f"{prefix}extra/{name}"
        extra_files[name] = bytes(entry(archive, place)) if place in archive.namelist() else b""
    return found
