"""What libraries and test suites ask of a build, answered as it is, beside PyTorch."""
import importlib
import inspect
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch as judge

import rushlight as torch
from rushlight._src.compat import absent, table
from rushlight._src.core import errors

BOTH = (judge, torch)


def of(t, path):
    return importlib.import_module(f"{t.__name__}.{path}")


def outcome(f, t):
    try:
        return f(t)
    except Exception as error:  # noqa: BLE001 - compared
        return type(error).__name__, str(error)


def nothing_is_logged(t):
    scribe = of(t, "_logging.scribe")
    return scribe.open_source_signpost(name="a", parameters="{}"), scribe.make_scribe_logger("A", "struct A {}")(x=1)


def engine_set(t, name):
    quantized = t.backends.quantized
    before = quantized.engine
    quantized.engine = name
    try:
        return before, quantized.engine
    finally:
        quantized.engine = before


CALLS = [
    nothing_is_logged,
    lambda t: (t.backends.quantized.engine, sorted(t.backends.quantized.supported_engines)),
    lambda t: [engine_set(t, name) for name in judge.backends.quantized.supported_engines],
    lambda t: engine_set(t, "none"), lambda t: engine_set(t, "abc"),
    lambda t: setattr(t.backends.quantized, "supported_engines", []),
    lambda t: [of(t, "utils._import_utils")._check_module_exists(n) for n in ("numpy", "no_such", "no_such.part")],
    lambda t: of(t, "utils._import_utils").dill_available(),
    lambda t: of(t, "utils._import_utils").import_dill(),
    lambda t: [of(t, "utils._pallas").has_jax_package(), of(t, "utils._pallas").has_pallas_package()],
    lambda t: of(t, "utils._pallas").get_jax_version((1, 2, 3)),
    lambda t: of(t, "_inductor.config").is_fbcode(),
    lambda t: of(t, "_dynamo.eval_frame").is_dynamo_supported(),
    lambda t: of(t, "jit._monkeytype_config")._IS_MONKEYTYPE_INSTALLED,
    lambda t: [of(t, "_functorch.eager_transforms")._slice_argnums((1, 2, 3), *a) for a in (
        (1,), (1, False), ((0, 2),), ((0, 2), False), (-1,))],
    lambda t: t._C._get_cpu_capability() == t.backends.cpu.get_cpu_capability(),
]


@pytest.mark.parametrize("call", CALLS)
def test_answers_are_those_of_pytorch(call):
    wanted, found = (outcome(call, t) for t in BOTH)
    assert found == wanted


def test_there_is_one_implementation_of_trees():
    from rushlight.utils import _pytree
    assert not _pytree._cxx_pytree_exists and not _pytree._cxx_pytree_dynamo_traceable
    with pytest.raises(ImportError):
        importlib.import_module("rushlight.utils._cxx_pytree")


@pytest.mark.parametrize("call", [lambda itt: itt.range_push("a"), lambda itt: itt.range_pop(),
                                  lambda itt: itt.mark("a"), lambda itt: itt.range("a").__enter__()])
def test_ranges_of_a_profiler_that_is_not_there_are_refused(call):
    assert not of(torch, "profiler.itt").is_available()
    with pytest.raises(RuntimeError, match="ITT functions not installed"):
        call(of(torch, "profiler.itt"))


def test_no_compiler_of_cpp_is_looked_for():
    from rushlight._inductor.codecache import CppCodeCache
    with pytest.raises(errors.NotBuiltError, match=r"CppCodeCache.load\(\) exists here only as a name: .* LLVM IR"):
        CppCodeCache.load("int main() {}")


def test_functions_of_absent_classes_refuse():
    """Every function that needs no instance: it is there, as in PyTorch, and calling it raises."""
    checked = 0
    for file in Path(table.FOLDER).glob("*.txt"):
        for path in table.room(file.stem):
            for name, (kind, text) in table.entries(path).items():
                members = re.search(r": ([\w, ]+)$", text) if kind == "class" else None
                for member in members[1].split(", ") if members else ():
                    with pytest.raises(NotImplementedError, match=rf"\.{name}\.{member}\(\) exists here only"):
                        getattr(absent.made_class(path, name, text), member)(1, 2)
                    checked += 1
    assert checked > 500


def state_in_blocks(t):
    class Mode(t.overrides.TorchFunctionMode):
        pass

    def now():
        return t._C._get_torch_function_state().name, t._C._len_torch_function_stack()

    found = [now()]
    with Mode(), Mode():
        found.append(now())
        with t._C.DisableTorchFunction():
            found.append(now())
            with t._C.DisableTorchFunctionSubclass():
                found.append(now())
        with t._C.DisableTorchFunctionSubclass():
            found.append(now())
            with t._C.DisableTorchFunction():
                found.append(now())
        found.append(now())
    return [*found, now(), [(s.name, int(s.value)) for s in t._C._TorchFunctionState.__members__.values()]]


def test_who_may_answer_operators():
    assert state_in_blocks(torch) == state_in_blocks(judge)


FROZEN = """
import sys
t = __import__(sys.argv[1])
b = t.backends
found = [b.flags_frozen()]
b.cudnn.enabled = b.cudnn.enabled
b.disable_global_flags()
found.append(b.flags_frozen())
def say(f):
    try:
        found.append(f())
    except RuntimeError as error:
        found.append(str(error).replace("rushlight", "torch"))
for name in ("enabled", "deterministic", "benchmark", "allow_tf32", "fp32_precision"):
    say(lambda: setattr(b.cudnn, name, False))
for name in ("enabled", "deterministic", "allow_tf32", "fp32_precision"):
    say(lambda: setattr(b.mkldnn, name, False))
say(lambda: setattr(b, "fp32_precision", "none"))
say(lambda: setattr(b.quantized, "engine", "x86"))
with b.cudnn.flags(enabled=True, deterministic=True):
    found.append((b.cudnn.enabled, b.cudnn.deterministic))
found.append(b.cudnn.deterministic)
print(found)
"""


def test_frozen_flags_are_refused():
    wanted, found = (subprocess.run([sys.executable, "-c", FROZEN, t.__name__], capture_output=True, text=True,
                                    check=True).stdout for t in BOTH)
    assert found == wanted and found.count("not allowed to set") == 10


def extension(t):
    """What is said of the devices of extensions, before and after one names and registers its own."""
    def now():
        return t._C._get_privateuse1_backend_name(), bool(t._utils._is_privateuse1_backend_available())

    found, module = [now()], types.ModuleType("npu")
    t.utils.rename_privateuse1_backend("npu")
    found.append(now())
    t._register_device_module("npu", module)
    found.append(now())
    module.is_available = lambda: True
    found.append(now())
    module.is_available = lambda: False
    return [*found, now()]


def test_devices_of_extensions():
    program = f"import sys, types\n{inspect.getsource(extension)}\nprint(extension(__import__(sys.argv[1])))"
    wanted, found = (subprocess.run([sys.executable, "-c", program, t.__name__], capture_output=True, text=True,
                                    check=True).stdout for t in BOTH)
    assert found == wanted and "('npu', True)" in found
