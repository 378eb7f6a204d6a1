"""Reduces a graph that fails when compiled (a wrong result, or an exception) to a small script that runs by itself.

    python -m rushlight.tools.minify train.py [--out minified.py]

runs a script, compares each compiled graph with its operators run one by one, and writes the first that fails, as small
as it gets.  In a program: ``minify(module, inputs, fails)``.
"""
from __future__ import annotations

import argparse
import copy
import os
import runpy
import sys

from .._src.core.meta import Meta
from .._src.core.native import Tensor
from ..fx import GraphModule
from ..fx.node import Node

OUT = "minified.py"


class Reduction:
    """A graph module and its inputs, made smaller as long as ``fails(module, inputs)``."""

    def __init__(self, module: GraphModule, inputs, fails):
        self.module, self.inputs, self.fails = module, list(inputs), fails
        self.tried = 0

    def attempt(self, change) -> bool:
        """Keeps ``change(module, inputs) -> inputs`` if what comes out still fails."""
        module = copy.deepcopy(self.module)
        try:
            inputs = change(module, list(self.inputs))
        except Unfit:
            return False
        module.graph.eliminate_dead_code()
        module.graph.lint()
        module.recompile()
        inputs = drop_unused(module, inputs)
        self.tried += 1
        if not self.fails(module, inputs):
            return False
        self.module, self.inputs = module, inputs
        return True

    def names(self):
        return [n.name for n in self.module.graph.nodes if n.op not in ("placeholder", "output")]

    def run(self):
        """Tries everything until nothing makes it smaller."""
        before = None
        while before != (before := (len(self.module.graph.nodes),
                                    len(self.module.graph.output_node().all_input_nodes))):
            self.fewer_outputs()
            self.shorter()
            self.inputs_for_values()
            self.without_nodes()
        return self.module, self.inputs

    def fewer_outputs(self):
        """One output instead of many."""
        count = len(self.module.graph.output_node().all_input_nodes)
        if count > 1:
            any(self.attempt(lambda module, inputs, k=k: only_output(module, inputs,
                                                                     module.graph.output_node().all_input_nodes[k]))
                for k in range(count))

    def shorter(self):
        """The shortest beginning of the program that fails."""
        any(self.attempt(lambda module, inputs, name=name: only_output(module, inputs, named(module, name)))
            for name in self.names())

    def inputs_for_values(self):
        """Inputs in the place of computed values, later ones first: what leads to them goes."""
        for name in reversed(self.names()):
            if name in self.names():
                self.attempt(lambda module, inputs, name=name: value_as_input(module, inputs, name))

    def without_nodes(self):
        """Values replaced by an operand of the same kind."""
        for name in self.names():
            if name in self.names():
                for k in range(len(named(self.module, name).all_input_nodes)):
                    if self.attempt(lambda module, inputs, name=name, k=k: bypassed(module, inputs, name, k)):
                        break


class Unfit(Exception):
    """A change that does not apply."""


def named(module, name) -> Node:
    return next(n for n in module.graph.nodes if n.name == name)


def only_output(module, inputs, node):
    """The program returns this value only."""
    values = computed(module, inputs)
    if not isinstance(values.get(node), Tensor):
        raise Unfit
    output = module.graph.output_node()
    if output.args == ((node,),):
        raise Unfit
    output.args = ((node,),)
    return inputs


def computed(module, inputs) -> dict:
    """The value of each node, operator by operator."""
    from ..fx import Interpreter
    values: dict = {}

    class Keeping(Interpreter):
        def run_node(self, n):
            values[n] = super().run_node(n)
            return values[n]

    Keeping(module, garbage_collect_values=False).run(*(x.detach().clone() if isinstance(x, Tensor) else x
                                                        for x in inputs))
    return values


def value_as_input(module, inputs, name):
    """A computed value becomes an input."""
    node = named(module, name)
    value = computed(module, inputs)[node]
    if not isinstance(value, Tensor):
        raise Unfit
    placeholders = module.graph.find_nodes(op="placeholder")
    with module.graph.inserting_after(placeholders[-1]) if placeholders else module.graph.inserting_before(None):
        made = module.graph.placeholder(f"{name}_given")
    node.replace_all_uses_with(made)
    wanted = any(isinstance(x, Tensor) and x.requires_grad for x in inputs) and value.dtype.is_inexact
    return [*inputs, value.detach().clone().requires_grad_(wanted)]


def bypassed(module, inputs, name, k):
    """A value replaced by its k-th operand, if that is of the same shape and dtype."""
    node = named(module, name)
    operand = node.all_input_nodes[k]
    values = computed(module, inputs)
    a, b = values[node], values[operand]
    if not (isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape == b.shape and a.dtype == b.dtype):
        raise Unfit
    node.replace_all_uses_with(operand)
    return inputs


def drop_unused(module, inputs):
    """Removes inputs that nothing reads; the others."""
    kept = []
    for node, value in zip(module.graph.find_nodes(op="placeholder"), inputs):
        if node.users:
            kept.append(value)
        else:
            module.graph.erase_node(node)
    module.recompile()
    return kept


def minify(module: GraphModule, inputs, fails):
    """(module, inputs) with as few nodes as it takes to make ``fails(module, inputs)`` true.

    ValueError if it does not fail to begin with.  Inputs are tensors and numbers; what raises in ``fails`` counts as it
    decides.

    >>> import rushlight as torch
    >>> module = torch.fx.symbolic_trace(lambda x, y: (torch.sin(torch.relu(x) + y).exp(),))
    >>> small, inputs = minify(module, [torch.ones(2), torch.ones(2)], lambda m, i: bool(m.graph.find_nodes(op="call_function", target=torch.sin)))
    >>> [node.name for node in small.graph.nodes]
    ['add_given', 'sin', 'output']
    """
    if not fails(module, list(inputs)):
        raise ValueError("the graph does not fail for these inputs: nothing to minify")
    return Reduction(module, inputs, fails).run()


# --- scripts ----------------------------------------------------------------------------------------------------------
def input_text(value) -> str:
    """An input as Python: random numbers of the same kind."""
    if not isinstance(value, Tensor):
        return repr(value)
    meta: Meta = value._rush_meta
    if value.dtype.is_inexact:
        text = f"torch.randn({tuple(meta.shape)}, dtype={value.dtype})"
    elif value.dtype.name == "bool":
        text = f"torch.rand({tuple(meta.shape)}) > 0.5"
    else:
        low, high = (int(value.min()), int(value.max()) + 1) if value.numel() else (0, 1)
        text = f"torch.randint({min(0, low)}, {max(high, 1)}, {tuple(meta.shape)}, dtype={value.dtype})"
    if not meta.contiguous:
        text = f"torch.empty_strided({tuple(meta.shape)}, {tuple(meta.strides)}, dtype={value.dtype}).copy_({text})"
    return f"({text})" + (".requires_grad_()" if value.requires_grad else "")


def script(module: GraphModule, inputs, saved: str | None = None) -> str:
    """A script that compiles the program and compares: it ends with an exception where that fails.  ``saved``: a file
    with the inputs."""
    code = module.graph.python_code("self")
    body = code.src.strip().replace("def forward(self, ", "def program(").replace("def forward(self)", "def program()")
    lines = ["inputs = torch.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), " + repr(saved)
             + "), weights_only=False)"] if saved else [
        "torch.manual_seed(0)", "inputs = [" + ", ".join(map(input_text, inputs)) + "]"]
    head = ["import rushlight as torch", "from rushlight.tools.minify import hold"]
    return "\n".join([*(["import os", ""] if saved else []), *head, "", "", body, "", "", *lines,
                      "hold(program, inputs)", ""])


def hold(program, inputs):
    """Compiles a function and compares it with its operators run one by one: AccuracyError where they differ."""
    from .._src.compiling import compile
    from .._src.core.settings import settings
    with settings.set(check="accuracy"):
        compile(program, fullgraph=True)(*inputs)


def failing(compile, wanted: type):
    """``fails`` for a backend: whether comparing raises an error of this type."""
    from ..fx.lowered import house_module
    from .accuracy import check

    def fails(module, inputs):
        try:
            check(house_module(module, inputs), compile, inputs)
        except wanted:
            return True
        except Exception:  # another failure is not the one that is looked for
            return False
        return False

    return fails


def report(captured, compile, inputs, error, out: str = ""):
    """Reduces a captured graph that fails with an error, writes the script, and says where it is."""
    from ..fx.convert import module_of
    from ..serialization import save
    fails = failing(compile, type(error))
    module, small = module_of(captured.graph), list(inputs)
    if fails(module, small):
        module, small = minify(module, small, fails)
    path = os.path.abspath(out or os.environ.get("RUSHLIGHT_MINIFIED", OUT))
    save([x.detach() if isinstance(x, Tensor) and not x.requires_grad else x for x in small], path[:-3] + ".pt")
    with open(path, "w") as file:
        file.write(script(module, small, os.path.basename(path)[:-3] + ".pt"))
    print(f"rushlight: {type(error).__name__} in a compiled graph; {path} shows it in {len(module.graph.nodes)} nodes",
          file=sys.stderr)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m rushlight.tools.minify", description=__doc__.split("\n\n")[0],
                                     epilog="Arguments after -- go to the script.")
    parser.add_argument("script")
    parser.add_argument("--out", default=OUT, help="the script to write")
    given = sys.argv[1:] if arguments is None else list(arguments)
    cut = given.index("--") if "--" in given else len(given)
    options = parser.parse_args(given[:cut])
    if not os.path.exists(options.script):
        parser.error(f"there is no file {options.script!r}")
    from .._src.compat.finder import install
    from .._src.core.settings import settings

    os.environ["RUSHLIGHT_MINIFIED"] = options.out
    install()
    sys.argv = [options.script, *given[cut + 1:]]
    sys.path[0] = os.path.dirname(os.path.abspath(options.script))
    with settings.set(check="minify"):
        runpy.run_path(options.script, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
