"""LLVM IR to machine code in this process.

Text becomes an object file with code generation only (no mid-end passes: the builder writes final form), the object
file is cached on disk, and our own loader, or ORC where that does not know the format, puts it into memory. Objects
stay loaded for the life of the process. LLVM itself is loaded when something is compiled for the first time: with a
warm cache it never is.  While a plan is made (``ahead``), code is generated on a second thread, and stubs stand for
what is not there yet.
"""

import contextlib
import functools
import hashlib
import itertools
import logging
import sys
import threading
from pathlib import Path

from ....core import cache
from ....core.apart import apart
from ....core.forking import guarded
from ....core.llvm.bindings import bindings
from ....core.llvm.machine import Linker
from . import stubs
from .compile_queue import CompileQueue
from .features import processor_kind, targeted, targeting
from .generate import generate, machine_of, new_machine, tools

assembly_log = logging.getLogger("rushlight.asm")
timing_log = logging.getLogger("rushlight.timing")

_lock = guarded("machine code", threading.RLock())
_built = {}  # digest of a compilation: {name: address}
_folders = {}  # digest of a compilation: the folder of the cache where its object lies
_recipes = {}  # digest of a compilation that no folder has: what writes its text, the level, its Features
_elsewhere = itertools.count(1 << 60)  # stand for addresses of functions that other machines run
_loaded = {}  # digest of an object -> {name: address}
_origins = {}  # address of a function -> (digest of its object, name)
_linker = Linker("rushlight", lambda: new_machine(1), searching=True)
_pending = {}  # digest of a compilation: what the second thread compiles for it
_line = None
_planning = threading.local()  # ``ahead``: how many such blocks a thread is in


def compile_object(text, level=1, passes=None):
    """Compiles LLVM IR to an object file's bytes; `passes` (1 to 3) runs the mid-end at that level first.

    Raises RuntimeError, with LLVM's words, for malformed IR.
    """
    with _lock:
        image, assembly = apart(_compiled, text, level, passes, targeted())
    if assembly is not None:
        assembly_log.debug("%s", assembly)  # by the thread whose program it is: tools ask for its line
    return image


def _compiled(text, level, passes, features):
    """(object file, its assembly where that is logged)."""
    llvm = bindings()
    with tools() as (context, machines):
        if passes is None and not assembly_log.isEnabledFor(logging.DEBUG):
            return generate(text, level, context, machines, features), None
        machine = machine_of(level, machines, features)
        with llvm.parse_assembly(text, context) as module:
            if passes is not None:
                tuning = llvm.create_pipeline_tuning_options(speed_level=passes)
                builder = llvm.create_pass_builder(machine, tuning)
                builder.getModulePassManager().run(module, builder)
            module.verify()
            assembly = machine.emit_assembly(module) if assembly_log.isEnabledFor(logging.DEBUG) else None
            return machine.emit_object(module), assembly


def link(image, exports, imports=None):
    """Puts an object file into this process; returns {exported name: address}.

    `imports` maps symbols to addresses; other undefined symbols are looked up in the process. Raises RuntimeError for
    symbols that are found nowhere.
    """
    with _lock:
        return _linker.link(image, exports, imports)


def build(key, make_text, exports, imports=None, level=1):
    """Addresses of compiled functions, from memory, from the disk cache, or from `make_text()`, which writes the IR.

    Within ``targeting`` what comes out are numbers that stand for addresses (``origin``): other machines run it.

    `key` is text that names the IR completely, given this version of the package; the CPU is added here. Pass the IR
    itself as the key when nothing shorter says it. Symbols of `imports` must mean the same for one key.

    Example:
        >>> import ctypes
        >>> from rushlight._src.devices.cpu.llvm.builder import Module
        >>> from rushlight._src.devices.cpu.llvm.values import constant
        >>> from rushlight._src.devices.cpu.llvm.types import i64
        >>> def text():
        ...     module = Module()
        ...     f = module.function("answer", [], i64)
        ...     f.ret(constant(i64, 42))
        ...     return module.text()
        >>> address = build("the answer", text, ["answer"])["answer"]
        >>> ctypes.CFUNCTYPE(ctypes.c_int64)(address)()
        42
    """
    digest = _digest(key, level)  # keys are as long as the text of a kernel, and tables are kept for good
    found = _built.get(digest)
    if found is not None:
        return found
    with _lock:
        if digest in _pending:
            if _is_ahead():
                return _pending[digest].stubs
            settle()
        found = _built.get(digest)
        return _load(digest, make_text, exports, imports, level) if found is None else found


def _digest(key, level):
    """The digest of a compilation for the machine that is aimed at."""
    return hashlib.sha256(f"{compiler_stamp()} {targeted().fingerprint} {level} {key}".encode()).hexdigest()


# --- code generation on a second thread -------------------------------------------------------------------------------
@contextlib.contextmanager
def ahead():
    """Within the block ``build`` gives this thread addresses at once, of what a second thread compiles meanwhile: what
    was built may run after ``settle()``, which the end of the block calls."""
    _planning.ahead = _is_ahead() + 1
    try:
        yield
    finally:
        _planning.ahead -= 1
        settle()


def _is_ahead():
    return getattr(_planning, "ahead", 0)


def _begin(digest, text, exports, level):
    """Starts a compilation; the addresses that its functions will have."""
    global _line
    _line = _line or CompileQueue()
    _pending[digest] = one = _line.add(text, level)
    one.digest = digest
    one.stubs = {name: next(_elsewhere) if one.features.triple else stubs.new() for name in exports}
    return one.stubs


def settle():
    """Waits until all that was begun is compiled and in memory.  RuntimeError, with LLVM's words, for malformed IR."""
    global _line
    if not _pending:
        return
    wrong = []
    with _lock:
        if _line is not None:
            apart(_line.share)
        while _pending:
            digest, one = next(iter(_pending.items()))
            try:
                _built[digest] = _settled(one)
            except RuntimeError as error:
                wrong.append(error)
            del _pending[digest]  # not before: other threads may run what is not pending; nor when interrupted
        if _line is not None:
            _line.end()
        _line = None
    if wrong:
        raise wrong[0]


def _settled(one):
    image = one.image()
    cache.put("object", one.digest, image)
    if not one.features.triple:
        for name, address in link(image, list(one.stubs)).items():
            stubs.lead(one.stubs[name], address)
    return _remember(one.digest, one.stubs, None)


@functools.lru_cache(maxsize=None)
def compiler_stamp():
    """A digest of the versions and source files that decide what the compiler emits, so that editing it drops old
    entries."""
    import llvmlite

    source = Path(__file__).parents[3]
    rooms = Path(__file__).parents[1], source / "ops" / "scalar", source / "core" / "llvm"
    return hashlib.sha256(" ".join([llvmlite.__version__, *map(cache.stamp, rooms)]).encode()).hexdigest()[:16]


def kind_and_sources() -> str:
    """What measurements of plans hold for: the kind of processor, and the files that plan and emit code."""
    return f"{processor_kind()} {compiler_stamp()}"


def _load(digest, make_text, exports, imports, level):
    features = targeted()
    if cache.current() is None:
        _recipes.setdefault(digest, (make_text, level, features))
    found = _loaded.get(digest, {})
    if not all(name in found for name in exports):
        image = cache.get("object", digest)
        if (image is None and _is_ahead() and not sys.is_finalizing() and not imports
            and (features.triple or stubs.possible())
            and not assembly_log.isEnabledFor(logging.DEBUG)):
            return _begin(digest, make_text(), exports, level)
        if image is None:
            image = compile_object(make_text(), level)
            cache.put("object", digest, image)
        addresses = ({one: next(_elsewhere) for one in exports} if features.triple
                     else link(image, exports, imports))
        found = _remember(digest, addresses, imports)
    _built[digest] = found
    return found


def object_of(digest):
    """The object file of what was built here: of the disk cache, or compiled again where that was switched off.  None
    where the cache has lost it."""
    found = cache.get("object", digest)
    if found is None:
        found = cache.get("object", digest, _folders.get(digest))
    if found is None and digest in _recipes:
        make_text, level, features = _recipes[digest]
        with targeting(features):
            found = compile_object(make_text(), level)
        cache.put("object", digest, found)
    return found


def _remember(digest, found, imports):
    _folders[digest] = cache.current()
    if not imports:  # what imports mean is known to who builds
        _loaded[digest] = _loaded.get(digest, {}) | found
        _origins.update((address, (digest, name)) for name, address in found.items())
    return found


def origin(address):
    """What ``fetch`` takes to find a compiled function again in another process; None where that cannot be said."""
    return _origins.get(address)


def fetch(digest, name):
    """The address of a function compiled earlier, here or by a process that shares the cache; None if the cache lost
    it."""
    with _lock:
        found = _loaded.get(digest)
        if found is None or name not in found:
            image = object_of(digest)
            if image is None:
                return None
            found = _remember(digest, link(image, [name]), None)
        return found[name]
