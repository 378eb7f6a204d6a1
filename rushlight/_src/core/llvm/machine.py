"""Target machines, and object files put into this process: by our loader, or by LLVM where that cannot read one."""
import ctypes
import itertools
import logging

from ..apart import apart
from ..platform import here
from . import loader
from .bindings import bindings
from .loaded import LoadedObject

log = logging.getLogger("rushlight.timing")


def forever(thing):
    """Keeps an object past interpreter shutdown: unmapping code that a thread still runs would crash."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing


def new_machine(cpu, features, level, codemodel, triple="", jit=True, reloc="pic"):
    """A code generator for a CPU, by LLVM's names, at an optimization level (0 to 3).

    ``triple``: the target triple, "" for this machine's; ``reloc``: "pic" for position-independent code."""
    llvm = bindings()
    if triple:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    else:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    target = llvm.Target.from_triple(triple) if triple else llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=level, reloc=reloc, codemodel=codemodel,
                                        jit=jit)


class Linker:
    """Links object files into this process. Files that LLVM's own linker has loaded stay.

    ``machine()`` makes the target machine of LLVM's own linker, which is made only if Rushlight's loader does not
    support a file: machines must not be shared with it. ``searching``: that linker looks other symbols up in the
    process.
    """

    def __init__(self, name, machine, searching=False):
        self.name, self.machine, self.searching = name, machine, searching
        self.engine, self.numbers = None, itertools.count()

    def link(self, image, exports, imports=None):
        """The LoadedObject; ``imports`` maps symbols to addresses.  RuntimeError for symbols found nowhere."""
        try:
            return loader.load(image, exports, imports)
        except loader.Unknown as reason:
            log.debug("linked by LLVM: %s", reason)
            return apart(self.by_llvm, image, exports, imports or {})

    def by_llvm(self, image, exports, imports):
        llvm = bindings()
        if self.engine is None:
            self.engine = forever(llvm.create_lljit_compiler(self.machine(), use_jit_link=here.name != "windows"))
        library = llvm.JITLibraryBuilder().add_object_img(image)
        if self.searching:
            library.add_current_process()
        for name, address in imports.items():
            library.import_symbol(name, address)
        for name in exports:
            library.export_symbol(name)
        tracker = forever(library.link(self.engine, f"{self.name}{next(self.numbers)}"))
        return forever(LoadedObject({name: tracker[name] for name in exports}, []))  # to be found again
