"""Placeholders for names that programs import but that Rushlight does not implement: using one raises an error."""
from __future__ import annotations

import ast
import builtins
import enum
import functools
import inspect
import re
import typing

from ..core.errors import NoDeviceError, NotBuiltError, OneProcessError, QuantizedError

COMING = {  # type of device -> package that provides such devices
    "cuda": "GPUs of NVIDIA and AMD come with rushlight[cuda], or rushlight[rocm], and the vendor's driver",
    "xpu": "GPUs of Intel come with rushlight[webgpu]", "mps": "Apple's GPUs come with rushlight[webgpu]",
    "mtia": "there is no extra for such devices"}
EXTRAS = "devices come with the extras rushlight[cuda], rushlight[rocm] and rushlight[webgpu]"
REASONS = {  # prefix of a path -> error that its names raise, and reason; the longest match counts
    "": (NotBuiltError, "this part of PyTorch has not been built"),
    **dict.fromkeys(("ao", "quantization", "jit.quantized"),
                    (QuantizedError,
                     "this part of quantization has not been built: quantized tensors, torch.ops.quantized and "
                     "torch.ops.quantized_decomposed, observers, FX graph mode (prepare_fx, prepare_qat_fx, convert_fx) "
                     "and eager mode (prepare, prepare_qat, convert, quantize_dynamic) are there")),
    **dict.fromkeys(("distributed", "nn.parallel.distributed", "testing._internal.common_distributed",
                     "_C._distributed_c10d"),
                    (OneProcessError,
                     "this part of torch.distributed has not been built: groups, collectives, DistributedDataParallel, "
                     "sharding, pipelining, checkpoints and rpc are there")),
    **{kind: (NoDeviceError, f"it has not been built; {text}") for kind, text in COMING.items()},
    **dict.fromkeys(("backends.cuda", "testing._internal.common_cuda"),
                    (NoDeviceError, f"it has not been built; {COMING['cuda']}")),
    "backends.mps": (NoDeviceError, f"it has not been built; {COMING['mps']}"),
    "accelerator": (NoDeviceError, f"it has not been built; {EXTRAS}"),
    "onnx": (NotBuiltError,
             "torch.onnx.export writes files from captured programs; other ways to make them are not there"),
    **dict.fromkeys((*(f"onnx.symbolic_opset{n}" for n in (*range(7, 19), 20)), "onnx.symbolic_helper", "onnx.utils",
                     "onnx.register_custom_op_symbolic", "onnx.unregister_custom_op_symbolic"),
                    (NotBuiltError,
                     "it writes nodes of TorchScript graphs, of which there are none: torch.onnx.export writes files "
                     "from captured programs")),
    **dict.fromkeys(("fx.experimental.migrate_gradual_types", "fx.experimental.graph_gradual_typechecker",
                     "fx.experimental.refinement_types", "fx.experimental.unify_refinements"),
                    (NotBuiltError,
                     "types of graphs are not solved by constraints: sizes are symbols, and torch.export tells their "
                     "bounds")),
    "distributed.flight_recorder": (NotBuiltError,
                                    "it reads files that PyTorch's processes leave: rushlight.tools.flight reads those "
                                    "of Rushlight's"),
    **dict.fromkeys(("utils.cpp_extension", "utils.hipify", "utils.jit", "utils.bundled_inputs", "utils.mkldnn",
                     "backends.nnpack", "backends.python_native"),
                    (NotBuiltError,
                     "it belongs to C++ that is built against PyTorch, or to its TorchScript: define operators in "
                     "Python with torch.library.custom_op")),
    "utils.benchmark.utils.valgrind_wrapper": (NotBuiltError,
                                               "instructions are not counted by callgrind: use Timer"),
    "utils.data.datapipes.dataframe": (NotBuiltError, "frames of data need torcharrow, which is no longer made"),
    "package": (NotBuiltError, "it belongs to the inside of PyTorch's torch.package: use PackageExporter and "
                               "PackageImporter"),
    "jit": (NotBuiltError,
            "programs are not turned into TorchScript graphs: torch.export and torch.compile capture them"),
    "_inductor.codecache.CppCodeCache": (NotBuiltError,
                                         "kernels are compiled in the process, from LLVM IR: no C++ is written, and no "
                                         "compiler of it is looked for"),
    **dict.fromkeys(("_C", "_dynamo", "_inductor", "_functorch"),
                    (NotBuiltError, "it belongs to the inside of PyTorch's compiler, which is not that of Rushlight")),
}
DEFAULT = NotBuiltError


def reason(path: str):
    """(error, reason) for a name of PyTorch, or the names of a module."""
    while path not in REASONS:
        path = path.rpartition(".")[0]
    return REASONS[path]


def absent_class(module: str, name: str, why: str, error=DEFAULT, bases=(object,), signature=None):
    """A class that can be imported, subclassed, named in annotations and passed to ``isinstance``; making an instance
    raises the error."""
    def refuse(cls, *args, **kwargs):
        raise error(f"{module}.{name} exists here only as a name: {why}")

    if signature is not None:
        first = inspect.Parameter("_cls", inspect.Parameter.POSITIONAL_ONLY)
        refuse.__signature__ = signature.replace(parameters=[first, *signature.parameters.values()])
    return type(name, bases, {"__new__": refuse, "__module__": module, "__doc__": f"Not implemented: {why}"})


def absent_function(module: str, name: str, why: str, error=DEFAULT, signature=None):
    """A function that can be imported; calling it raises the error.  As a decorator it returns such a function, so that
    modules whose functions it decorates can be imported."""
    def refuse(*args, **kwargs):
        if len(args) == 1 and not kwargs and inspect.isfunction(args[0]):
            return functools.wraps(args[0])(absent_function(module, name, why, error))
        raise error(f"{module}.{name}() exists here only as a name: {why}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__, refuse.__doc__ = module, f"Not implemented: {why}"
    if signature is not None:
        refuse.__signature__ = signature
    return refuse


def absent(module: str, why: str, names: str, error=DEFAULT) -> dict:
    """Placeholders by the case of their names: capitalized ones are classes, others functions."""
    return {n: (absent_class if n.lstrip("_")[:1].isupper() else absent_function)(module, n, why, error)
            for n in names.split()}


class AbsentObject:
    """A value that can be imported; any use of it raises the error."""

    def __init__(self, module: str, name: str, why: str, error=DEFAULT):
        vars(self).update(_text=f"{module}.{name} exists here only as a name: {why}", _error=error)

    def _refuse(self, *args, **kwargs):
        raise self._error(self._text)

    def __getattr__(self, name):
        if name.startswith("__"):  # attributes that the interpreter and tools look up
            raise AttributeError(name)
        self._refuse()

    def __repr__(self):
        return f"<{self._text}>"

    __setattr__ = __delattr__ = __getitem__ = __setitem__ = __iter__ = __len__ = __contains__ = _refuse
    __call__ = __bool__ = _refuse


def signature_of(text: str):
    """Return the signature written as ``(self, a, b=1)``; None for an empty string.

    >>> signature_of("(a, *, b=..., **more)")
    <Signature (a, *, b=Ellipsis, **more)>
    """
    if not text:
        return None
    given = ast.parse(f"def f{text}: pass").body[0].args
    kinds = inspect.Parameter
    ordinary = [*((a, kinds.POSITIONAL_ONLY) for a in given.posonlyargs),
                *((a, kinds.POSITIONAL_OR_KEYWORD) for a in given.args)]
    defaults = [None] * (len(ordinary) - len(given.defaults)) + given.defaults
    listed = [(a, kind, d) for (a, kind), d in zip(ordinary, defaults)]
    listed += [(given.vararg, kinds.VAR_POSITIONAL, None)] if given.vararg else []
    listed += [(a, kinds.KEYWORD_ONLY, d) for a, d in zip(given.kwonlyargs, given.kw_defaults)]
    listed += [(given.kwarg, kinds.VAR_KEYWORD, None)] if given.kwarg else []
    return inspect.Signature([kinds(a.arg, kind, default=kinds.empty if d is None else ast.literal_eval(d))
                              for a, kind, d in listed])


def of_path(path):
    """(reason, error) for the names of a module, or for one name."""
    error, why = reason(path.partition(".")[2])
    return why, error


def made_class(path, name, text):
    """Return a class described by ``(a, b=1): load, build``: parameters, and static methods."""
    parameters, members = re.fullmatch(r"(\(.*\))?(?:: ([\w, ]+))?", text).groups()
    made = absent_class(path, name, *of_path(f"{path}.{name}"), signature=signature_of(parameters))
    for member in members.split(", ") if members else ():
        setattr(made, member, staticmethod(absent_function(f"{path}.{name}", member, *of_path(f"{path}.{name}"))))
    return made


def made_function(path, name, text):
    return absent_function(path, name, *of_path(f"{path}.{name}"), signature=signature_of(text))


def made_object(path, name, text):
    return AbsentObject(path, name, *of_path(f"{path}.{name}"))


def made_enum(path, name, text):
    """Return the class of constants that PyTorch has: ``(IntEnum): A=1, B=2``."""
    base, _, members = text.partition(": ")
    call = ast.parse(f"f({members})", mode="eval").body
    return getattr(enum, base.strip("()"))(name, {k.arg: ast.literal_eval(k.value) for k in call.keywords}, module=path)


def made_error(path, name, text):
    """Return an exception class, which Rushlight never raises: ``(RuntimeError)``."""
    return type(name, (getattr(builtins, text.strip("()")),), {"__module__": path})


KINDS = {"class": made_class, "def": made_function, "object": made_object, "enum": made_enum, "error": made_error,
         "type": lambda path, name, text: typing.Any, "value": lambda path, name, text: ast.literal_eval(text)}
