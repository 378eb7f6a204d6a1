"""From a program to machine code in this process: IR, LLVM's optimiser, an object file kept on disk, and its addresses."""

import ast
import ctypes
import functools
import hashlib
import logging
import pathlib
import sys
import threading
import time

import llvmlite

from .. import loader
from ... import cache
from . import capi, entries, objects, processor, runtime
from .function import compile_function
from .ir import Module

_C_LIBRARY = ctypes.CDLL(None)
_MEMORY = ("memcpy", "memmove", "memset")  # LLVM may call these on its own
PASSES = ("post_order_function_attributes", "always_inliner", "sroa", "simplify_cfg", "instruction_combine", "jump_threading", "simplify_cfg",
          "global_dead_code_eliminate")  # without the last three operators take a fifth longer
_lock = threading.Lock()
_timing = logging.getLogger("rushlight.timing")


def emit(program):
    """The LLVM IR of a program, and the Python constants it needs in the order of their slots."""
    module = Module()
    for name in capi.API:
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
    names = ["objects", "program_runner"]
    names += [f"py.{declared.symbol}" for declared in program.everything()]
    for declared in program.classes.values():
        names += [f"{kind}.{declared.symbol}" for kind in ("tp_new", "dealloc", "clear", "traverse")]
        names += [f"{kind}.{declared.symbol}.{field.name}" for kind in ("get", "set") for field in declared.checked]
        names += [f"slot.{declared.symbol}.{number}" for number, _ in entries.slots(program, declared)]
        names += [f"bind.{declared.symbol}"] * declared.traits.binds
    return names


@functools.cache
def _jit():
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    jit = llvm.create_lljit_compiler(_target_machine(), use_jit_link=sys.platform != "win32")
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(jit))
    return jit


def _target_machine():
    import llvmlite.binding as llvm

    cpu, features = processor.host()
    target = llvm.Target.from_default_triple()
    text = ",".join(("+" if on else "-") + name for name, on in sorted(features.items()))
    return target.create_target_machine(cpu=cpu, features=text, opt=2, reloc="pic", codemodel="small", jit=True)


def optimise(text):
    """The object file of LLVM IR, after those of LLVM's passes that pay: its own pipeline takes three times as long for code that runs no faster."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text)
    module.verify()
    machine = _target_machine()
    passes = llvm.create_new_module_pass_manager()
    for name in PASSES:
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    return machine.emit_object(module)


def link(image, names):
    """Load an object file into the process; the addresses of its exported symbols."""
    imports = {name: _C_LIBRARY if name in capi.FROM_C_LIBRARY else ctypes.pythonapi for name in capi.API}
    imports |= dict.fromkeys(_MEMORY, _C_LIBRARY)
    imports = {name: ctypes.cast(getattr(holder, name), ctypes.c_void_p).value for name, holder in imports.items()}
    try:
        return loader.load(image, names, imports)
    except loader.Unknown:
        return _link_by_llvm(image, names, imports)


def _link_by_llvm(image, names, imports):
    import llvmlite.binding as llvm

    library = llvm.JITLibraryBuilder().add_object_img(image)
    for name, address in imports.items():
        library.import_symbol(name, address)
    for name in names:
        library.export_symbol(name)
    with _lock:
        link.count += 1
        tracker = library.link(_jit(), f"native{link.count}")
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(tracker))  # objects outlive this module: their code is never unloaded
    return {name: tracker[name] for name in names}


link.count = 0


def build(program):
    """The addresses of a program's exported symbols, from the cache or compiled now; fills `program.constants`."""
    start = time.perf_counter()
    key = _key(program)
    entry = _load(key)
    cached = entry is not None and _holds(entry["assumptions"])
    if cached:
        program.constants.slots = {description: slot for slot, description in enumerate(entry["constants"])}
        image = entry["image"]
    else:
        image = optimise(emit(program))
        _save(key, {"constants": list(program.constants.slots), "assumptions": list(program.assumptions.items()), "image": image})
    addresses = link(image, exports(program))
    seconds = time.perf_counter() - start
    _timing.debug("%s the hot path: %d bytes of code in %.3f s", "loaded" if cached else "compiled", len(image), seconds)
    return addresses


def _key(program):
    """What the machine code depends on: sources, this compiler, interpreter, LLVM and processor."""
    here = sorted(pathlib.Path(__file__).parent.glob("*.py"))
    sources = [pathlib.Path(module.__file__) for module in program.modules]
    digest = hashlib.sha256()
    for path in [*here, *sources, *(pathlib.Path(__file__).parent.parent / name for name in ("language.py", "memory.py"))]:
        digest.update(path.read_bytes())
    about = (sys.version, llvmlite.__version__, processor.host())
    digest.update(repr((about, [module.__name__ for module in program.modules])).encode())
    return digest.hexdigest()


def _holds(assumptions):
    """Whether the numbers that were compiled into the code are still what the modules say."""
    return all(_current(description) == value for description, value in assumptions)


def _current(description):
    _, module, *path = description
    return functools.reduce(getattr, path, sys.modules[module])


def _load(key):
    """A cache entry, or None: what the code assumes, and the object image."""
    body = cache.get("native", key)
    if body is None:
        return None
    header, _, image = body.partition(b"\n")
    constants, assumptions = ast.literal_eval(header.decode())
    return {"constants": constants, "assumptions": assumptions, "image": image}


def _save(key, entry):
    cache.put("native", key, repr((entry["constants"], entry["assumptions"])).encode() + b"\n" + entry["image"])
