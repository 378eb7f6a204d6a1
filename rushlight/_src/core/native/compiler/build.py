"""From a program to machine code in this process: IR, LLVM, an object file cached on disk, and its addresses.

A package that was installed from a wheel contains this code (``prebuilt.py``). Elsewhere the first process uses code
compiled with few optimizations, in a fifth of the time. A process that uses such code and lives for a while also
compiles optimized code, on a separate thread, for later processes.
"""

import atexit
import ctypes
import functools
import hashlib
import importlib.machinery
import logging
import pathlib
import platform
import sys
import threading
import time
import zlib

import llvmlite

from ... import cache, encoding
from ...apart import apart
from ...forking import guarded
from ...llvm import processor
from ...llvm.bindings import bindings
from ...llvm.machine import Linker, forever, new_machine
from ...platform import here as system
from . import capi, entries, objects, runtime
from .function import compile_function
from .ir import Module

_MEMORY = ("memcpy", "memmove", "memset")  # LLVM may call these on its own
QUICK = ("always_inliner", "sroa", "simplify_cfg")
PASSES = ("post_order_function_attributes", "always_inliner", "sroa", "simplify_cfg", "instruction_combine",
          "jump_threading", "simplify_cfg",
          "global_dead_code_eliminate")  # without the last three operators take a fifth longer
PATIENCE = 30.0  # seconds of life after which a process gives half a second of a core to later ones
FIELDS = "constants", "assumptions", "text", "image"  # of an entry: of the cache, or of the package
PREBUILT = pathlib.Path(__file__).parents[1] / "prebuilt"
_lock = guarded("machine code", threading.RLock())
_timing = logging.getLogger("rushlight.timing")


def emit(program):
    """The LLVM IR of a program, and the Python constants it needs in the order of their slots."""
    module = Module()
    for name in (*capi.API, *capi.OF_C, *capi.OF_SYSTEM[system.name]):
        capi.declare(module, name)
    for declared in program.everything():
        module.define(compile_function(program, declared.module, declared))
    module.define(entries.text(program))
    module.define(objects.text(program))
    module.define(objects.per_thread(program))
    module.define(objects.VISIT)
    module.define(runtime.text(program.constants))
    module.define(f"@objects = global [{len(program.constants.slots)} x ptr] zeroinitializer")
    return str(module)


def exports(program):
    """The symbols that Python needs the addresses of."""
    names = ["objects", "program_runner", "watch_dict", "dict_changes"]
    names += [f"mine.{what}.{number}" for number in range(len(program.per_thread)) for what in ("key", "get", "set")]
    names += [f"py.{declared.symbol}" for declared in program.everything()]
    for declared in program.classes.values():
        names += [f"{kind}.{declared.symbol}" for kind in ("tp_new", "dealloc", "clear", "traverse")]
        names += [f"{kind}.{declared.symbol}.{field.name}" for kind in ("get", "set") for field in declared.checked]
        names += [f"slot.{declared.symbol}.{number}" for number, _ in entries.slots(program, declared)]
        names += [f"bind.{declared.symbol}"] * declared.traits.binds
    return names


def _target_machine(level=2):
    # the real CPU, whatever RUSHLIGHT_CPU says: no result of the hot path depends on the instructions that it uses, and
    # so all levels share one object, which takes long to compile
    cpu, features = processor.host()
    text = ",".join(("+" if on else "-") + name for name, on in sorted(features.items()))
    return new_machine(cpu, text, level, "small")


_linker = Linker("native", _target_machine)


def quick(text):
    """The object file of LLVM IR, compiled quickly: an operator's call takes 1.6 times as long as with the result of
    ``optimise``."""
    return _generate(text, QUICK, 0)


def optimise(text):
    """The object file of LLVM IR, after those of LLVM's passes that pay off: its own pipeline takes three times as long
    for code that runs no faster."""
    return _generate(text, PASSES, 2)


def _generate(text, passes, level, machine=None):
    llvm = bindings()
    machine = machine or _target_machine(level)
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()
    manager = llvm.create_new_module_pass_manager()
    for name in passes:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    return machine.emit_object(module)


def link(image, names):
    """Load an object file into the process, for good; the addresses of its exported symbols."""
    imports = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in capi.API}
    imports |= {name: system.symbol(name) for name in (*capi.OF_SYSTEM[system.name], *capi.OF_C, *_MEMORY)}
    with _lock:
        return forever(_linker.link(image, names, imports)).addresses


def build(program):
    """The addresses of a program's exported symbols, from the package, from the cache or compiled now; fills
    `program.constants`."""
    start, key = time.perf_counter(), None
    entry = _usable(_prebuilt(program))
    if entry is None:
        key = _key(program)
        entry = _usable(_load(key))
    refined = entry is not None
    if entry is None:
        entry = _usable(_load(_quick(key)))
    cached = entry is not None
    if cached:
        program.constants.slots = {description: slot for slot, description in enumerate(entry["constants"])}
    else:
        text = emit(program)
        entry = made(program, zlib.compress(text.encode(), 1), apart(quick, text))
        _save(_quick(key), entry)
    addresses = link(entry["image"], exports(program))
    seconds = time.perf_counter() - start
    _timing.debug("%s the hot path: %d bytes of code in %.3f s", "loaded" if cached else "compiled",
                  len(entry["image"]), seconds)
    if not refined and cache.directory() is not None:
        _later(key)
    return addresses


def made(program, text, image):
    """The entry of a program whose IR was emitted."""
    return {"constants": list(program.constants.slots), "assumptions": list(program.assumptions.items()), "text": text,
            "image": image}


# --- better code for later processes ----------------------------------------------------------------------------------
def refine(key):
    """Add optimized code to the quick code in the cache, if it is not there yet."""
    entry, better = _load(_quick(key)), _load(key)
    if entry is None or better is not None and better["assumptions"] == entry["assumptions"]:
        return
    start = time.perf_counter()
    _save(key, {**entry, "text": b"", "image": optimise(zlib.decompress(entry["text"]).decode())})
    _timing.debug("optimised the hot path for later processes in %.3f s", time.perf_counter() - start)


def _later(key):
    timer = threading.Timer(PATIENCE, refine, (key,))
    timer.daemon = True
    timer.start()
    atexit.register(_end, timer)


def _end(timer):
    """No thread may be within LLVM when the process goes."""
    timer.cancel()
    timer.join()


# --- the cache --------------------------------------------------------------------------------------------------------
def _quick(key):
    return f"{key} quick"


def _key(program):
    """A digest of everything that the machine code depends on: sources, this compiler, interpreter, LLVM and CPU."""
    return _digest(program, sys.version, llvmlite.__version__, processor.host())


def prebuilt_name(program):
    """The name of the package's file with a program's machine code, by its dependencies: sources, this compiler, the
    interpreter's binary interface and the CPU architecture."""
    return _digest(program, tuple(sys.version_info), importlib.machinery.EXTENSION_SUFFIXES[0], platform.machine())[:32]


def _digest(program, *about):
    here = pathlib.Path(__file__).parent
    ours = [*sorted(here.glob("*.py")), *sorted((here.parents[1] / "llvm").glob("*.py"))]
    sources = [pathlib.Path(module.__file__) for module in program.modules]
    digest = hashlib.sha256()
    for path in [*ours, *sources, *(here.parent / name for name in ("language.py", "memory.py"))]:
        digest.update(path.read_bytes())
    digest.update(repr((about, system.name, [module.__name__ for module in program.modules])).encode())
    return digest.hexdigest()


def _prebuilt(program):
    """The entry that the package has of a program, or None."""
    if not PREBUILT.is_dir():
        return None
    path = PREBUILT / prebuilt_name(program)
    return _entry(path.read_bytes()) if path.is_file() else None


def _usable(entry):
    """The entry if its code's assumptions hold; else None."""
    return entry if entry is not None and all(_current(description) == value
                                              for description, value in entry["assumptions"]) else None


def _current(description):
    _, module, *path = description
    return functools.reduce(getattr, path, sys.modules[module])


def _load(key):
    """A cache entry, or None."""
    body = cache.get("native", key)
    return body and _entry(body)


def _entry(body):
    """Decode an entry, or return None: the assumptions of the code, its IR (compressed, b"" once optimized), and the
    object image."""
    try:
        return dict(zip(FIELDS, encoding.decode(body)))
    except encoding.Damaged as reason:
        _timing.warning("the hot path is compiled again: %s", reason)
        return None


def encoded(entry):
    """The bytes of an entry."""
    return encoding.encode(tuple(entry[field] for field in FIELDS))


def _save(key, entry):
    cache.put("native", key, encoded(entry))
