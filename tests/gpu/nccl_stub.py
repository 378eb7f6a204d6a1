"""A stand-in for ``libnccl.so.2``: a shared object of ELF that our own code generator and linker make.

Each entry writes its arguments into words and asks one function of the test's (``stub_callback``), which gives the
status.  Of 64-bit processors of Intel's kind: a structure that is handed over by value lies on the stack, after the
words of the registers.
"""
from __future__ import annotations

from rushlight._src.devices.cpu.llvm import jit
from rushlight._src.devices.cpu.llvm.builder import Module
from rushlight._src.devices.cpu.llvm.types import i32, i64, ptr
from rushlight._src.devices.cpu.llvm.values import Value, constant
from rushlight._src.packages.objects import SharedObject

IDENTITY = 16  # words of a structure by value, behind six registers
REGISTERS = 6
ENTRIES = (  # name, kinds of its arguments: p an address or handle, i 32 bits, z 64, u a structure by value
    ("ncclGetVersion", "p"), ("ncclGetUniqueId", "p"), ("ncclCommInitRank", "piui"), ("ncclCommDestroy", "p"),
    ("ncclCommAbort", "p"), ("ncclCommGetAsyncError", "pp"), ("ncclGroupStart", ""), ("ncclGroupEnd", ""),
    ("ncclAllReduce", "ppziipp"), ("ncclBroadcast", "ppziipp"), ("ncclReduce", "ppziiipp"), ("ncclAllGather", "ppzipp"),
    ("ncclReduceScatter", "ppziipp"), ("ncclSend", "pziipp"), ("ncclRecv", "pziipp"),
    ("ncclRedOpCreatePreMulSum", "ppiip"), ("ncclRedOpDestroy", "ip"), ("ncclCommInitRankConfig", "piuip"),
    ("ncclCommFinalize", "p"), ("ncclCommSplit", "piipp"))
NAMES = [name for name, _ in ENTRIES]
TEXTS = ("ncclGetErrorString", "i"), ("ncclGetLastError", "p")
KINDS = {"p": i64, "i": i32, "z": i64}


def placed(kinds: str) -> tuple:
    """(the types of the function's parameters, which of them is the first word of each argument)."""
    plain = [KINDS[kind] for kind in kinds if kind != "u"]
    if "u" not in kinds:
        return plain, list(range(len(plain)))
    types = plain + [i64] * (REGISTERS - len(plain)) + [i64] * IDENTITY
    following = iter(range(len(plain)))
    return types, [REGISTERS if kind == "u" else next(following) for kind in kinds]


def written(module: Module, number: int, name: str, kinds: str):
    types, places = placed(kinds)
    f = module.function(name, [(f"a{k}", type) for k, type in enumerate(types)], i32)
    words = f.alloca(i64, max(len(kinds) + IDENTITY, 1))
    base = f.cast("ptrtoint", words, i64)
    at = 0
    for kind, place in zip(kinds, places):
        for k in range(IDENTITY if kind == "u" else 1):
            given = f.parameters[place + k]
            value = f.cast("sext", given, i64) if given.type is i32 else given
            f.store(value, f.cast("inttoptr", f.add(base, 8 * at), ptr), 8)
            at += 1
    asked = f.load(ptr, Value("@stub_callback", ptr), 8)
    f.ret(f.call_pointer(asked, [constant(i64, number), words], i32))


def text() -> str:
    """The library as IR."""
    module = Module()
    module.data("stub_callback", "i64", internal=False)
    module.data("stub_text", "i64", str(int.from_bytes(b"a stub\0\0", "little")))
    for number, (name, kinds) in enumerate(ENTRIES):
        written(module, number, name, kinds)
    for name, kinds in TEXTS:
        f = module.function(name, [("a0", KINDS[kinds])], ptr)
        f.ret(Value("@stub_text", ptr))
    f = module.function("stub_place", [], ptr)
    f.ret(Value("@stub_callback", ptr))
    return module.text()


def image() -> bytes:
    """The file."""
    made = SharedObject()
    made.add_object(jit.compile_object(text()))
    return made.image((*NAMES, *(name for name, _ in TEXTS), "stub_place"), "libnccl-stand-in.so.2")
