"""LLVM IR to machine code in this process.

IR becomes an object file with code generation only (no mid-end passes: the builder emits final form), the object file
is cached on disk, and Rushlight's own loader, or ORC for formats that it does not know, loads it.  An object stays
loaded while the address of one of its functions is held (``core/llvm/loaded.py``), or while it is among the last ones
loaded: the tables here hold it weakly.  LLVM itself is loaded at the first compilation: with a warm cache it never is.
While a plan is made (``ahead``), code is generated on a second thread, and stubs replace functions that are not
compiled yet.
"""

import contextlib
import functools
import hashlib
import itertools
import logging
import sys
import threading
from collections import deque
from pathlib import Path
from weakref import WeakValueDictionary

from ....core import cache
from ....core.apart import apart
from ....core.forking import guarded
from ....core.llvm.bindings import bindings
from ....core.llvm.loaded import Function, LoadedObject
from ....core.llvm.machine import Linker
from . import stubs
from .compile_queue import CompileQueue
from .features import processor_kind, targeted, targeting
from .generate import generate, machine_of, new_machine, tools

assembly_log = logging.getLogger("rushlight.asm")
timing_log = logging.getLogger("rushlight.timing")

_lock = guarded("machine code", threading.RLock())
RECENT = 128  # objects that stay loaded without references
_loaded: WeakValueDictionary = WeakValueDictionary()  # (digest of a compilation, name of a function): its LoadedObject
_origins: WeakValueDictionary = WeakValueDictionary()  # address of a function that ``fetch`` finds: its LoadedObject
_sources: WeakValueDictionary = WeakValueDictionary()  # digest of a compilation: its Source
_recent: deque = deque(maxlen=RECENT)  # the LoadedObjects made last
_elsewhere = itertools.count(1 << 60)  # placeholders for addresses of functions that other machines run
_linker = Linker("rushlight", lambda: new_machine(1), searching=True)
_pending = {}  # digest of a compilation: its Compilation on the second thread
_line = None
_planning = threading.local()  # ``ahead``: number of such blocks that a thread is in


class Source:
    """The source of a compilation's object file: ``folder``, the directory of the cache, or if caching is off
    ``recipe``, (function that returns its IR, the level, its Features).  The compilation's LoadedObjects hold it."""

    def __init__(self, folder=None, recipe=None):
        self.folder, self.recipe = folder, recipe


def compile_object(text, level=1, passes=None):
    """Compile LLVM IR to an object file's bytes; `passes` (1 to 3) runs the mid-end at that level first.

    Raises RuntimeError, with LLVM's message, for malformed IR.
    """
    with _lock:
        image, assembly = apart(_compiled, text, level, passes, targeted())
    if assembly is not None:
        assembly_log.debug("%s", assembly)  # by the thread whose program it is: tools ask for its line
    return image


def _compiled(text, level, passes, features):
    """Return (object file, its assembly if that is logged)."""
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
    """Load an object file into this process; return the LoadedObject.

    `imports` maps symbols to Functions, which it holds; other undefined symbols are looked up in the process. Raises
    RuntimeError for symbols that are not found.
    """
    with _lock:
        loaded = _linker.link(image, exports, imports)
        loaded.held += (imports or {}).values()
        return loaded


def build(key, make_text, exports, imports=None, level=1):
    """Return {name: Function} of compiled functions, from memory, from the disk cache, or from `make_text()`, which
    returns the IR.  The code stays in memory while one of these Functions is held.

    Within ``targeting`` the results are placeholders for addresses (``origin``): other machines run the code.

    `key` is a string that identifies the IR completely, given this version of the package; the CPU is added here. Pass
    the IR itself as the key if nothing shorter identifies it. Symbols of `imports` must be the same for one key.

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
        >>> from rushlight._src.core.llvm.loaded import callable_at
        >>> address = build("the answer", text, ["answer"])["answer"]
        >>> callable_at(address, ctypes.CFUNCTYPE(ctypes.c_int64))()
        42
    """
    digest = _digest(key, level)  # keys are as long as the source of a kernel
    found = _found(digest, exports)
    if found is not None:
        return found
    with _lock:
        if digest in _pending:
            if _is_ahead():
                return _pending[digest].loaded.functions
            settle()
        return _found(digest, exports) or _load(digest, make_text, exports, imports, level)


def _found(digest, names):
    """{name: Function} of functions in memory; None if one of them is not."""
    functions = {}
    for name in names:
        loaded = _loaded.get((digest, name))
        if loaded is None:
            return None
        functions[name] = Function(loaded, name)
    return functions


def forget():
    """Make ``build`` and ``fetch`` load or compile everything again.  Code that is referenced stays in memory."""
    with _lock:
        _loaded.clear()
        _recent.clear()


def _digest(key, level):
    """The digest of a compilation for the current target machine."""
    return hashlib.sha256(f"{compiler_stamp()} {targeted().fingerprint} {level} {key}".encode()).hexdigest()


# --- code generation on a second thread -------------------------------------------------------------------------------
@contextlib.contextmanager
def ahead():
    """A context in which ``build`` returns addresses to this thread at once, while a second thread compiles: the
    functions may run after ``settle()``, which the end of the block calls."""
    _planning.ahead = _is_ahead() + 1
    try:
        yield
    finally:
        _planning.ahead -= 1
        settle()


def _is_ahead():
    return getattr(_planning, "ahead", 0)


def _begin(digest, text, exports, level, source):
    """Start a compilation; return the Functions of the stubs that will jump to the results."""
    global _line
    _line = _line or CompileQueue()
    _pending[digest] = one = _line.add(text, level)
    jumps = [] if one.features.triple else [stubs.new() for _ in exports]
    one.digest, one.source = digest, source
    one.loaded = LoadedObject(dict(zip(exports, map(int, jumps) if jumps else _elsewhere)), jumps)
    return one.loaded.functions


def settle():
    """Wait until all started compilations are in memory.  RuntimeError, with LLVM's message, for malformed IR."""
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
                _settle(one)
            except RuntimeError as error:
                wrong.append(error)
            del _pending[digest]  # only now: other threads may run what is not pending; not if interrupted
        if _line is not None:
            _line.end()
        _line = None
    if wrong:
        raise wrong[0]


def _settle(one):
    image, loaded = one.image(), one.loaded
    cache.put("object", one.digest, image)
    if not one.features.triple:
        target = link(image, list(loaded.addresses))
        loaded.held.append(target)
        for name, address in target.addresses.items():
            stubs.lead(loaded.addresses[name], address)
    _remember(one.digest, loaded, one.source)


@functools.lru_cache(maxsize=None)
def compiler_stamp():
    """A digest of the versions and source files that affect the compiler's output, so that editing it drops old
    entries."""
    import llvmlite

    source = Path(__file__).parents[3]
    rooms = Path(__file__).parents[1], source / "compiler", source / "ops" / "scalar", source / "core" / "llvm"
    return hashlib.sha256(" ".join([llvmlite.__version__, *map(cache.stamp, rooms)]).encode()).hexdigest()[:16]


def kind_and_sources() -> str:
    """The key of measurements of plans: the kind of CPU, and the files that plan and emit code."""
    return f"{processor_kind()} {compiler_stamp()}"


def _load(digest, make_text, exports, imports, level):
    features = targeted()
    source = _source(digest, make_text, level)
    image = cache.get("object", digest)
    if (image is None and _is_ahead() and not sys.is_finalizing() and not imports
        and (features.triple or stubs.possible())
        and not assembly_log.isEnabledFor(logging.DEBUG)):
        return _begin(digest, make_text(), exports, level, source)
    if image is None:
        image = compile_object(make_text(), level)
        cache.put("object", digest, image)
    loaded = (LoadedObject(dict(zip(exports, _elsewhere)), []) if features.triple
              else link(image, exports, imports))
    return _remember(digest, loaded, source, imports)


def _source(digest, make_text=None, level=None):
    """The Source of a compilation: the one that LoadedObjects hold, or a new one."""
    source = _sources.get(digest)
    if source is None:
        source = _sources[digest] = Source(cache.current())
    if make_text is not None and cache.current() is None and source.recipe is None:
        source.recipe = make_text, level, targeted()
    return source


def object_of(digest):
    """The object file of a compilation in this process: from the disk cache, or compiled again if caching is off.  None
    if the cache has lost it."""
    found, source = cache.get("object", digest), _sources.get(digest)
    if found is None and source is not None:
        found = cache.get("object", digest, source.folder)
    if found is None and source is not None and source.recipe is not None:
        make_text, level, features = source.recipe
        with targeting(features):
            found = compile_object(make_text(), level)
        cache.put("object", digest, found)
    return found


def _remember(digest, loaded, source, imports=None):
    """Enter a LoadedObject into the tables; return its Functions."""
    loaded.digest, loaded.source = digest, source
    for name, address in loaded.addresses.items():
        _loaded[digest, name] = loaded
        if not imports:  # only the caller of build knows the imports
            _origins[address] = loaded
    _recent.append(loaded)
    return loaded.functions


def origin(address):
    """(digest, name), by which ``fetch`` finds a compiled function in another process; None if it could not find
    it."""
    loaded = _origins.get(address)
    return loaded and (loaded.digest, next(name for name, one in loaded.addresses.items() if one == address))


def fetch(digest, name):
    """A function compiled earlier, here or by a process that shares the cache; None if the cache lost it."""
    with _lock:
        found = _found(digest, [name])
        if found is None:
            image = object_of(digest)
            if image is None:
                return None
            found = _remember(digest, link(image, [name]), _source(digest))
        return found[name]
