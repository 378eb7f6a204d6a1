"""Logs under PyTorch's names: ``torch._logging.set_logs(graph_breaks=True)`` and
``TORCH_LOGS=graph_breaks,output_code``."""
from __future__ import annotations

import logging

from .._src.core.log import LOGS, handler, logger
from .._src.core.log import set_logs as switch

# parts of PyTorch that log at a level, and the logs that tell of them here
COMPONENTS = {"torch": tuple(LOGS), "dynamo": ("graph_breaks", "guards", "recompiles", "graph"), "aot": ("aot",),
              "inductor": ("fusion", "kernels", "output", "timing"), "dynamic": ("dynamic",), "export": ("graph",),
              "cache": ("cache",), "ddp": ("buckets",), "fsdp": ("buckets",), "distributed": ("buckets",),
              "async_compile": ("timing",), "autograd": ("aot",)}
COMPONENTS |= dict.fromkeys(("c10d", "dtensor", "pp", "fake_tensor", "onnx", "native_dsl"), ())
# artifacts that PyTorch prints only if they are named
ARTIFACTS = {"graph": ("graph",), "graph_code": ("graph",), "graph_sizes": ("graph",), "trace_source": ("graph",),
             "bytecode": ("output",), "trace_bytecode": ("output",),
             "aot_graphs": ("aot",), "aot_joint_graph": ("aot",), "joint_graph": ("aot",),
             "post_grad_graphs": ("graph",), "output_code": ("output",), "kernel_code": ("kernels",),
             "schedule": ("memory", "kernels"), "fusion": ("fusion",), "perf_hints": ("kernels",),
             "guards": ("guards",), "verbose_guards": ("guards",), "recompiles": ("recompiles",),
             "recompiles_verbose": ("recompiles",), "graph_breaks": ("graph_breaks",), "autotuning": ("autotune",),
             "compiled_autograd": ("aot",), "graph_code_verbose": ("graph",), "pre_grad_graphs": ("graph",),
             "trace_call": ("output",), "trace_shape_events": ("dynamic",), "compiled_autograd_verbose": ("aot",),
             "caching": ("cache",), "benchmarking": ("autotune",), "incremental": ("autotune",),
             "sym_node": ("dynamic",), "ir_pre_fusion": ("kernels",), "ir_post_fusion": ("kernels",),
             "loop_ordering": ("kernels",), "loop_tiling": ("kernels",), "inductor_metrics": ("timing",),
             "hierarchical_compile": ("fusion",), "side_effects": ("output",), "aot_graphs_effects": ("aot",)}
# nothing of the kind is done here
ARTIFACTS |= dict.fromkeys(("ddp_graphs", "overlap", "overlap_scheduling", "cudagraphs", "cudagraph_static_inputs",
                            "onnx_diagnostics", "graph_region_expansion", "compute_dependencies", "annotation",
                            "auto_chunker", "node_runtime_estimation", "not_implemented"), ())
NAMES = {"all": tuple(LOGS), **COMPONENTS, **{name: (name,) for name in LOGS}, **ARTIFACTS}
# modules of PyTorch and the component to which they belong; the longest that a name begins with counts
MODULES = {"torch._dynamo": "dynamo", "torch._functorch": "aot", "torch._inductor": "inductor",
           "torch._inductor.async_compile": "async_compile", "torch._inductor.remote_cache": "cache",
           "torch.fx.experimental": "dynamic", "torch.export": "export", "torch._export": "export",
           "torch.autograd": "autograd", "torch._subclasses": "fake_tensor", "torch.onnx": "onnx",
           "torch.nn.parallel": "ddp", "torch.distributed": "distributed", "torch.distributed.fsdp": "fsdp",
           "torch.distributed.distributed_c10d": "c10d", "torch.distributed.rendezvous": "c10d",
           "torch.distributed.tensor": "dtensor", "torch.distributed.pipelining": "pp"}

USAGE = """
TORCH_LOGS takes names, with commas between them, and each may have a sign:

  a component or a module   +name logs from logging.DEBUG, name from logging.INFO, -name from logging.ERROR
  an artifact or a log      name switches it on, -name off

  TORCH_LOGS="+dynamo,graph_breaks"                what capture does, and where it stops
  TORCH_LOGS="+torch._dynamo,-torch._inductor"     components by their modules
  TORCH_LOGS="output_code,+my_package.layers"      a program's own logger, on standard error with the others
"""


def unknown_log(name: str) -> ValueError:
    """Return the error of a name that no log has."""
    return ValueError(f"there is no log {name!r}; there are {', '.join(sorted(NAMES))}")


def getArtifactLogger(module_qname, artifact_name) -> logging.Logger:
    """The logger of an artifact; ValueError for an unknown name.

    >>> getArtifactLogger(__name__, "graph_breaks").name
    'rushlight.graph_breaks'
    """
    names = NAMES.get(artifact_name)
    if names is None:
        raise unknown_log(artifact_name)
    return logger(names[0]) if names else logging.getLogger(f"rushlight.{artifact_name}")


def set_logs(*, all=None, dynamo=None, aot=None, inductor=None, dynamic=None, modules=None, **more):
    """Switch logs on and off by PyTorch's names: artifacts take bools, components and ``modules`` take levels of
    ``logging``.  Without arguments all go off.

    ValueError for an unknown name.
    """
    wanted = {k: v for k, v in dict(all=all, dynamo=dynamo, aot=aot, inductor=inductor, dynamic=dynamic,
                                    **(modules or {}), **more).items() if v is not None}
    unknown = [name for name in wanted if not is_known(name)]
    if unknown:
        raise unknown_log(unknown[0])
    if not wanted:
        switch()
        return
    apply(wanted)


def is_known(name: str) -> bool:
    """True if ``name`` is that of a component, an artifact, a log, a module of PyTorch with logs, or any other module
    that can be imported."""
    return name in NAMES or name in MODULES or is_module(name)


def is_module(name: str) -> bool:
    """True if a module of this name can be imported; the names that begin with ``torch`` are this package's."""
    from importlib.util import find_spec

    if not all(part.isidentifier() for part in name.split(".")):
        return False
    root, dot, rest = name.partition(".")
    try:
        return find_spec((__name__.partition(".")[0] if root == "torch" else root) + dot + rest) is not None
    except (ModuleNotFoundError, ValueError):  # ValueError: a module without a spec, such as __main__
        return False


def apply(levels: dict):
    """Set each name to its level, or its switch.  The name that covers most logs goes first, so that a part of it may
    be set otherwise, whatever the order."""
    ours: dict[str, bool] = {}
    for name, value in sorted(levels.items(), key=lambda item: -len(logs_of(item[0]))):
        ours |= dict.fromkeys(logs_of(name), is_on(value))
        if name not in NAMES and not component_of(name):
            follow(logging.getLogger(name), value)
    if ours:
        switch(**ours)


def logs_of(name: str) -> tuple:
    """The logs that a name of PyTorch means."""
    return NAMES[name] if name in NAMES else NAMES.get(component_of(name), ())


def component_of(module: str) -> str | None:
    """The component to which a module of PyTorch belongs, None for a module of a program."""
    while module and module not in MODULES:
        module = module.rpartition(".")[0]
    return MODULES.get(module)


def is_on(value) -> bool:
    """True if a level, or a switch, means that a log is shown."""
    return value if isinstance(value, bool) else value <= logging.INFO


def follow(target: logging.Logger, level: int):
    """Print what a program's own logger says from this level, together with the logs."""
    target.removeHandler(handler)
    target.addHandler(handler)
    target.setLevel(level)
    target.propagate = False


def set_by_text(text: str):
    """Set the logs as ``TORCH_LOGS`` says.

    ValueError with the names that there are if ``text`` is ``help`` or ``+help``, and for an unknown name.
    """
    if text in ("help", "+help"):
        raise ValueError(help_message(is_verbose=text == "+help"))
    words = ["".join(word.split()) for word in text.split(",")]
    names = [word[1:] if word[:1] in ("+", "-") else word for word in words]
    if not all(map(is_known, names)):
        raise ValueError(f"\nInvalid log settings: {text}, must be a comma separated list of fully\n"
                         "qualified module names, registered log names or registered artifact names.\n"
                         'For more info on various settings, try TORCH_LOGS="help"\n'
                         f"Valid settings:\n{', '.join(sorted(NAMES))}\n")
    apply({name: level_of(word) for name, word in zip(names, words)})


def level_of(word: str) -> int:
    """The level that the sign of a word means.

    >>> level_of("+dynamo"), level_of("dynamo"), level_of("-dynamo")
    (10, 20, 40)
    """
    return {"+": logging.DEBUG, "-": logging.ERROR}.get(word[:1], logging.INFO)


def help_message(is_verbose: bool = False) -> str:
    """The help that ``TORCH_LOGS=help`` prints; ``+help`` adds the artifacts for which there is nothing to print."""
    shown = NAMES if is_verbose else {name: logs for name, logs in NAMES.items() if logs}
    heading = "All registered names" if is_verbose else "Visible registered names (TORCH_LOGS=+help prints all)"
    return "\n".join(["", "TORCH_LOGS Info", USAGE, heading,
                      *(f"  {name}" for name in shown if name in COMPONENTS or name == "all"),
                      *(f"  {name:<30}{describe(name)}" for name in sorted(shown.keys() - COMPONENTS - {"all"})), ""])


def describe(name: str) -> str:
    """A line about an artifact."""
    return "; ".join(LOGS[log] for log in NAMES[name]) or "not printed: there is nothing of the kind here"
