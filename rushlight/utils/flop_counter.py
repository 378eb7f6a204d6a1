"""FlopCounterMode: how many floating-point operations contractions take, by module and operator."""
from __future__ import annotations

from collections import defaultdict

from .._src.aot.alias import Recording
from .._src.capture.errors import Break
from .._src.compiler.counts import multiplications
from .._src.core.native import Op, Tensor
from .._src.core.watching import Watching
from .._src.graph.graph import Graph, Node, splice
from ..nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from .flop_formulas import (addmm_flop, baddbmm_flop, bmm_flop, conv_backward_flop, conv_flop,  # noqa: F401
                            conv_flop_count, convert_num_with_suffix, convert_to_percent_str, flop_registry, get_shape,
                            get_suffix_str, mm_flop, normalize_tuple, register_flop_formula, sdpa_backward_flop,
                            sdpa_backward_flop_count, sdpa_flop, sdpa_flop_count, shape_wrapper, suffixes)

__all__ = ["FlopCounterMode", "register_flop_formula"]


def node_flops(node: Node) -> int:
    """Multiplications and additions of one primitive; 0 for what is no contraction."""
    return 2 * multiplications(node)


_counted: dict = {}


def flops_of(op: Op, args, kwargs) -> int:
    """Return the FLOPs of one operator call; cached for similar arguments."""
    def key_of(value):
        if isinstance(value, Tensor):
            return value._rush_meta
        if isinstance(value, (list, tuple)):
            return tuple(map(key_of, value))
        return value if value.__hash__ else repr(value)

    key = op, key_of(args), tuple((k, key_of(v)) for k, v in kwargs.items())
    found = _counted.get(key)
    if found is None:
        found = _counted[key] = traced_flops(op, args, kwargs)
    return found


def traced_flops(op, args, kwargs) -> int:
    """The contractions among the primitives of a call."""
    trace = Recording()

    def enter(value):
        if isinstance(value, Tensor):
            return trace.input(value._rush_meta)
        return type(value)(map(enter, value)) if type(value) in (list, tuple) else value

    try:
        with trace:
            given, named = tuple(map(enter, args)), {k: enter(v) for k, v in kwargs.items() if k != "out"}
            trace.call(op, given, named) if op.kind is not None else op.body(*given, **named)
    except (Break, TypeError, ValueError, RuntimeError, NotImplementedError):
        return 0  # its results' sizes depend on data: such operators contract nothing
    return sum(map(node_flops, splice(Graph(trace.inputs, trace.nodes, [])).nodes))


class FlopCounterMode(Watching):
    """Counts in its ``with`` block: ``get_total_flops()``, ``get_flop_counts()`` by module and operator,
    ``get_table()``.

    A multiplication and its addition are two operations.  Only contractions count, in backward passes (under "Global")
    too.

    >>> import rushlight as torch
    >>> from rushlight.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False) as counter:
    ...     y = torch.ones(2, 3) @ torch.ones(3, 4)
    >>> counter.get_total_flops()
    48
    """

    def __init__(self, mods=None, depth: int = 2, display: bool = True, custom_mapping=None):
        self.depth, self.display, self.custom = depth, display, dict(custom_mapping or {})
        self.flop_counts: dict = defaultdict(lambda: defaultdict(int))

    def __enter__(self):
        self.flop_counts.clear()
        self.path, self.names = [], {}
        self.handles = [register_module_forward_pre_hook(self.enter_module),
                        register_module_forward_hook(self.leave_module, always_call=True)]
        return super().__enter__()

    def __exit__(self, *exception):
        super().__exit__(*exception)
        for handle in self.handles:
            handle.remove()
        if self.display:
            print(self.get_table(self.depth))

    def enter_module(self, module, args):
        if not self.path:
            self.names = {m: f"{type(module).__name__}{'.' + name if name else ''}"
                          for name, m in module.named_modules()}
        self.path.append(self.names.get(module, type(module).__name__))

    def leave_module(self, module, args, result):
        self.path.pop()

    def around(self, op, args, kwargs, run):
        from .._ops import overload_of
        from .._src.core.op import OPS
        result = run()
        if op.traits.get("composite"):
            return result
        formula = self.formula(op)
        count = flops_of(op, args, kwargs) if formula is None else formula(*args, **kwargs, out_val=result)
        if count:
            key = overload_of(op, args, kwargs).overloadpacket if OPS.get(op.name) is op else op.name
            for name in dict.fromkeys(["Global", *self.path]):
                self.flop_counts[name][key] += count
        return result

    def formula(self, op):
        """Return the formula that a program registered for an operator, or None."""
        for given, count in (*self.custom.items(), *flop_registry.items()):
            if given is op or getattr(given, "op", None) is op or getattr(given, "_qualified_op_name", 0) == op.name:
                return count
        return None

    def get_total_flops(self) -> int:
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict:
        """{module: {operator: count}}."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """A table of modules, down to ``depth`` names, with their operators."""
        total = max(self.get_total_flops(), 1)
        rows = [("Module", "FLOP", "% Total")]
        for name in sorted(self.flop_counts, key=lambda n: (n != "Global", n)):
            level = 0 if name == "Global" else name.count(".") + 1
            if level <= (self.depth if depth is None else depth):
                counts = self.flop_counts[name]
                rows.append((" " * level + name, shortened(sum(counts.values())),
                             f"{sum(counts.values()) / total:.2%}"))
                rows += [(" " * level + f" - {key}", shortened(n), f"{n / total:.2%}") for key, n in counts.items()]
        widths = [max(len(r[k]) for r in rows) for k in range(3)]
        lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
        return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def shortened(count: int) -> str:
    """A number with a suffix: 1.5K, 2.0M."""
    for suffix in ("", "K", "M", "B", "T"):
        if count < 1000 or suffix == "T":
            return f"{count:.3f}{suffix}" if suffix else str(count)
        count /= 1000
