"""Logs under PyTorch's names: ``torch._logging.set_logs(graph_breaks=True)`` and
``TORCH_LOGS=graph_breaks,output_code``."""
from __future__ import annotations

import logging

from .._src.core.log import LOGS, logger
from .._src.core.log import set_logs as switch

MEANING = {"graph": ("graph",), "graph_code": ("graph",), "graph_sizes": ("graph",), "trace_source": ("graph",),
           "bytecode": ("output",), "trace_bytecode": ("output",),
           "aot_graphs": ("aot",), "aot_joint_graph": ("aot",), "joint_graph": ("aot",), "post_grad_graphs": ("graph",),
           "output_code": ("output",),
           "kernel_code": ("kernels",), "schedule": ("memory", "kernels"), "fusion": ("fusion",),
           "perf_hints": ("kernels",), "guards": ("guards",),
           "recompiles": ("recompiles",), "recompiles_verbose": ("recompiles",), "graph_breaks": ("graph_breaks",),
           "dynamic": ("dynamic",),
           "dynamo": ("graph_breaks", "guards", "recompiles", "graph"), "aot": ("aot",),
           "inductor": ("fusion", "kernels", "output", "timing"),
           "cudagraphs": (), "autotuning": ("timing",), "compiled_autograd": ("aot",), "cache": ("cache",),
           "export": ("graph",), "all": tuple(LOGS),
           "graph_code_verbose": ("graph",), "pre_grad_graphs": ("graph",), "trace_call": ("output",),
           "compiled_autograd_verbose": ("aot",), "caching": ("cache",),
           "benchmarking": ("autotune",), "sym_node": ("dynamic",), "ir_pre_fusion": ("kernels",),
           "ir_post_fusion": ("kernels",), "inductor_metrics": ("timing",),
           "hierarchical_compile": ("fusion",), "side_effects": ("output",), "distributed": ()}
# nothing of the kind is done here
MEANING |= dict.fromkeys(("ddp_graphs", "overlap", "cudagraph_static_inputs", "onnx_diagnostics",
                          "graph_region_expansion", "compute_dependencies"), ())
ARTIFACTS = {name: (name,) for name in LOGS} | MEANING


def getArtifactLogger(module_qname, artifact_name) -> logging.Logger:
    """The logger of an artifact; ValueError for an unknown name.

    >>> getArtifactLogger(__name__, "graph_breaks").name
    'rushlight.graph_breaks'
    """
    names = ARTIFACTS.get(artifact_name)
    if names is None:
        raise ValueError(f"there is no log {artifact_name!r}; there are {', '.join(sorted(ARTIFACTS))}")
    return logger(names[0]) if names else logging.getLogger(f"rushlight.{artifact_name}")


def set_logs(*, all=None, dynamo=None, aot=None, inductor=None, dynamic=None, modules=None, **more):
    """Switches logs on and off by PyTorch's names: artifacts take bools, components take levels of ``logging``.
    Without arguments all go off.

    ValueError for an unknown name.
    """
    wanted = {k: v for k, v in dict(all=all, dynamo=dynamo, aot=aot, inductor=inductor, dynamic=dynamic,
                                    **(modules or {}), **more).items() if v is not None}
    if not wanted:
        switch()
        return
    switch(**meaning({name: on(value) for name, value in wanted.items()}))


def on(value) -> bool:
    """Whether a level or a switch means that a log is shown."""
    return value if isinstance(value, bool) else value <= logging.INFO


def meaning(wanted: dict) -> dict:
    """Our logs for PyTorch's names."""
    unknown = [name for name in wanted if name not in ARTIFACTS]
    if unknown:
        raise ValueError(f"there is no log {unknown[0]!r}; there are {', '.join(sorted(ARTIFACTS))}")
    return {ours: value for name, value in wanted.items() for ours in ARTIFACTS[name]}


def set_by_text(text: str):
    """As ``TORCH_LOGS`` says: names with commas, ``+name`` for more, ``-name`` for none; unknown ones are named on
    standard error."""
    wanted = {}
    for word in filter(None, (w.strip() for w in text.split(","))):
        name = word.lstrip("+-").rpartition(".")[2] or word
        if name in ARTIFACTS:
            wanted[name] = not word.startswith("-")
        else:
            import sys
            print(f"rushlight: TORCH_LOGS names {name!r}, which is no log: there are {', '.join(sorted(ARTIFACTS))}",
                  file=sys.stderr)
    if wanted:
        switch(**meaning(wanted))
