"""A model split into stages: its exported program, split at the marks."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import rushlight as torch

from ...export import export
from ...fx.graph import Graph
from ...fx.graph_module import GraphModule
from ...utils._pytree import tree_leaves, tree_unflatten
from .marks import Marking, SplitPoint
from .splitting import pipe_split

__all__ = ["Pipe", "pipe_split", "SplitPoint", "pipeline", "annotate_split_points", "PipeInfo"]

RESERVE = torch.default_generator.reserve


def annotate_split_points(mod, spec: dict):
    """Has ``pipeline`` split a model before or after submodules, by name."""
    mod.__dict__.setdefault("_split_points", {}).update(spec)


@dataclass
class PipeInfo:
    """A Pipe's program and number of stages."""

    graph: Any
    num_stages: int
    has_loss_and_backward: bool = False


def is_mark(node) -> bool:
    return node.op == "call_function" and str(node.target) == "rushlight_pipelining.mark.default"


def sections(nodes) -> dict:
    """Return {node: index of its stage}: nodes after a mark belong to the next one; parameters, and nodes that draw an
    offset in the RNG stream, belong to all (None)."""
    found, stage = {}, 0
    for node in nodes:
        if node.op in ("placeholder", "get_attr", "output") or drawing(node):
            found[node] = None
            continue
        found[node] = stage
        stage += is_mark(node)
    return found


def drawing(node) -> bool:
    """True if a node draws an offset in the RNG stream."""
    if node.op != "call_function":
        return False
    if node.target == RESERVE:
        return True
    return bool(node.all_input_nodes) and all(map(drawing, node.all_input_nodes))


class Cutter:
    """Makes the modules of stages of an exported program."""

    def __init__(self, module, out_spec):
        self.module, self.nodes, self.out_spec = module, list(module.graph.nodes), out_spec
        self.stage_of = sections(self.nodes)
        self.count = 1 + max((s for s in self.stage_of.values() if s is not None), default=0)
        self.inputs = [n for n in self.nodes if n.op == "placeholder"]
        self.result = next(n for n in self.nodes if n.op == "output")
        self.last_use = {}
        for node in self.nodes:
            at = self.count - 1 if node is self.result else self.stage_of[node]
            for used in node.all_input_nodes:
                if at is not None:
                    self.last_use[used] = max(at, self.last_use.get(used, 0))

    def crossing(self, stage: int) -> list:
        """The values that stages up to this one make, or the model is given, and later ones read."""
        return [n for n in self.nodes if n.op != "get_attr" and not drawing(n) and self.last_use.get(n, -1) > stage
                and (n.op == "placeholder" or self.stage_of[n] <= stage)]

    def stage(self, k: int) -> GraphModule:
        """The module of one stage."""
        graph, env = Graph(), {}
        for node in self.inputs if k == 0 else self.crossing(k - 1):
            env[node] = graph.placeholder(node.name)

        def value(node):
            if node not in env:  # a parameter, or an offset in the RNG stream
                env[node] = graph.node_copy(node, value)
            return env[node]

        for node in self.nodes:
            if self.stage_of[node] == k:
                env[node] = value(node.args[0]) if is_mark(node) else graph.node_copy(node, value)
        if k == self.count - 1:
            graph.node_copy(self.result, value)
        else:
            graph.output(tuple(value(n) for n in self.crossing(k)))
        made = GraphModule(self.module, graph, f"submod_{k}")
        if k == self.count - 1:
            made.register_forward_hook(lambda mod, args, out: tree_unflatten(list(out), self.out_spec))
        return made


class Pipe(torch.nn.Module):
    """A model as stages ``submod_0``, ``submod_1``, ... in order; a call returns a tuple of the model's output tensors.
    ``names``: keyword arguments, in the order in which the first stage takes them."""

    def __init__(self, stages, program, names=()):
        super().__init__()
        for k, stage in enumerate(stages):
            self.add_module(f"submod_{k}", stage)
        self.num_stages, self.has_loss_and_backward, self.program = len(stages), False, program
        self.names = tuple(names)

    @property
    def split_gm(self):
        return self

    def forward(self, *args, **kwargs):
        """The tensors of the model's result, whatever it is made of.  TypeError for names that the example did not
        have."""
        unknown = kwargs.keys() - set(self.names)
        if unknown:
            raise TypeError(f"the pipeline takes {list(self.names)} by name, not {sorted(unknown)}")
        values = (*args, *(kwargs[name] for name in self.names if name in kwargs))
        for k in range(self.num_stages):
            values = self.get_stage_module(k)(*values)
            values = values if isinstance(values, tuple) else (values,)
        return tuple(tree_leaves(values))

    def get_stage_module(self, stage_idx: int):
        """The module of a stage.  ValueError for one that there is not."""
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}!")
        return getattr(self, f"submod_{stage_idx}")

    def info(self) -> PipeInfo:
        return PipeInfo(self.program.graph, self.num_stages, self.has_loss_and_backward)

    def build_stage(self, stage_index: int, device, group=None):
        """The PipelineStage of one stage."""
        from .stage import build_stage
        return build_stage(self.get_stage_module(stage_index), stage_index, self.info(), device, group)


def pipeline(module, mb_args: tuple, mb_kwargs: dict | None = None, split_spec: dict | None = None,
             split_policy=None) -> Pipe:
    """Return a model split into stages: where its ``forward`` calls ``pipe_split()``, or before and after the
    submodules in ``split_spec`` (name -> SplitPoint).  ``mb_args`` and ``mb_kwargs`` are an example microbatch.
    ``split_policy(graph_module)`` may change the exported program before it is split.

    A value that a later stage than the next one reads is passed through those between.

    >>> import rushlight as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> pipe = pipeline(model, (torch.ones(4, 2),), split_spec={"2": SplitPoint.BEGINNING})
    >>> pipe.num_stages, [name for name, _ in pipe.get_stage_module(0).named_parameters()]
    (2, ['0.weight', '0.bias'])
    >>> torch.equal(pipe(torch.ones(4, 2))[0], model(torch.ones(4, 2)))
    True
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError("Cannot specify both `split_spec` and `split_policy`. Please use only one of them.")
    spec = {**module.__dict__.get("_split_points", {}), **(split_spec or {})}
    with Marking(module, spec):
        program = export(module, tuple(mb_args), mb_kwargs)
    whole = program.module()
    if split_policy is not None:
        whole = split_policy(whole)
    cutter = Cutter(whole, program.out_spec)
    return Pipe([cutter.stage(k) for k in range(cutter.count)], program, mb_kwargs or ())
