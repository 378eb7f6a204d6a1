"""The declared properties of an operator: ``Op.traits``, by name, with the type of each.

Traits are given where an operator is declared or made (``op``, ``declare``, ``make`` in ``op.py``) and hold for all of
its calls. Data computed from an operator later (its derivatives, results of its calls) is stored in ``Op.caches``.
"""
from __future__ import annotations

from types import FunctionType, MethodType

FUNCTION = FunctionType, MethodType

# name: type of the value (None is "not declared", for all of them), its meaning
TRAITS: dict[str, tuple] = {
    # location in PyTorch's namespace, and accepted call forms
    "namespace": (str, "the module of PyTorch: '' for the top level, 'nn.functional', 'linalg', ..."),
    "method": (bool, "it is a method of Tensor"),
    "method_only": (bool, "it is a method, and no function of the top level"),
    "doc": (str, "its documentation, where its body has none"),
    "samples": (tuple, "Samples: arguments that show and test it"),
    "aliases": (dict, "further names of its parameters: {other name: name}"),
    "operator": (str, "the special method of Tensor that calls it, without underscores: 'add'"),
    "library": (object, "the packet of ``torch.ops`` that it belongs to"),
    "lone_bool": (bool, "a bool as second positional argument is another parameter than a number is there: "
                        "var(input, unbiased)"),
    "number_first": (bool, "its first operand may be a Python number"),
    "numbers": (bool, "both operands may be Python numbers"),
    # its results
    "second": (str, "what differentiates its gradient further: 'zeros' for all arguments, or 'none' of them"),
    "arity": (int, "how many arguments of a primitive are tensors, in front; -1: all in one tuple"),
    "several": (bool, "it returns a tuple, even of one result"),
    "view": (bool, "its result shares memory with its first argument where strides allow"),
    "turns": (bool, "a view that shows each element as another number: its conjugate or negative"),
    "detaches": (bool, "no gradient flows through it"),
    "collects": (str, "its gradient rule gets whole gradients of its arguments, those of other uses too; for whom"),
    "constant": (set, "the positions of results without a gradient, once it was traced"),
    "results": (object, "what its results are parts of, once it was traced (capture/custom.py)"),
    "dynamic": (bool, "the size of its result depends on data"),
    "fresh": (str, "it makes a tensor like its argument: 'empty' or 'filled'"),
    "random": (bool, "it draws from the random stream"),
    "by_size": (bool, "it draws elements of the sizes in its parameter `size`, of no tensor: draws of a batch are one"),
    "sampler": (str, "its tensors are parameters of distributions: 'batch' where one call draws for a batch of them, "
                     "'rows' where they have at most two dimensions"),
    # its plans
    "composite": (bool, "a call runs the operators of its body one by one"),
    "planned": (bool, "a composite that is one program where nothing interprets it"),
    "lean": (bool, "a composite that is one program where nothing interprets it and no gradient is wanted"),
    "autocast": (str, "precision under autocast on the host: 'half', 'float32' or 'parts' (as its body's operators)"),
    "declared": (int, "the parameters that are run-time scalars by declaration, a bit each"),
    "all_scalars": (int, "the bits of run-time scalars where they are more than a word holds"),
    "writable": (bool, "programs that it is part of may write into memory of their arguments"),
    "alone": (tuple, "(k, primitive): result k is what this cheaper primitive computes, where no other is read"),
    "otherwise": (FUNCTION, "(arguments after the first) -> another operator that takes the call, or None"),
    "reads": (tuple, "(object, attribute): a setting that its body asks for"),
    "in_place": (FUNCTION, "what runs in its place where arguments that it writes may share memory"),
    "each_time": (bool, "its body runs at each call of a captured graph"),
    "tangents": (str, "the parameter of a forward derivative that takes the tangents"),
    "leading": (bool, "it maps over leading dimensions, equal ones for all arguments, by itself"),
    "by_rows": (bool, "it looks at last dimensions only, so that rows may be computed apart"),
    "spread": (bool, "operands may be given as one list, or one by one"),
    # writing
    "overwritable": ((tuple, *FUNCTION), "the names of parameters, or 'result', whose values users may write before "
                                         "the backward pass although it reads them, since PyTorch's reads others; or "
                                         "a function of the arguments that gives these names"),
    "saves_nothing": (bool, "PyTorch's derivative saves no tensor: what this one saves survives a backward pass"),
    "into": (int, "the position of the argument that it writes into"),
    "writes": (tuple, "the names of the parameters that it writes into, where they are several (None is not written)"),
    "inplace_too": (bool, "there is a form with a trailing underscore that writes into the first argument"),
    "inplace_view": (bool, "its in-place form changes the shape of a tensor, not its elements"),
    "moves": (bool, "it reads elements at other places than those it writes"),
    "some": (bool, "it writes some elements and keeps the others"),
    "uniform": (bool, "it writes one value everywhere, so a place may be written several times"),
    "out_any": (bool, "``out=`` may have any dtype"),
    "out_exact": (bool, "``out=``, or what is written in place, must have the dtype of the result"),
    "out_in_order": (bool, "``out=`` of as many elements keeps its shape, and is filled in order"),
    "out_of": (tuple, "the names of the dtypes that ``out=`` may have"),
    "out_of_range": (type, "the error for an index that is out of range"),
    "reports": (FUNCTION, "(what its program left in the flag) -> the error, or None for what kernels report"),
    "counts": (bool, "it computes with run-time numbers that count"),
    # operators that run a graph
    "derived": (object, "made by a transform or a capture: True, or the graph that it runs"),
    "backward": (bool, "it computes gradients for a call of another operator"),
    "apart": (bool, "a gradient of some of its results flows to what these depend on, not to all arguments"),
    "inputs": (list, "the graph's inputs: Nodes, or None for values that it does not read"),
    "symbols": (dict, "the graph's symbolic sizes: {name of an input: Expr}"),
    "captured": (bool, "it runs a captured graph"),
    "held": ((list, tuple), "the graph's inputs whose values are fixed"),
    "shorter": (FUNCTION, "(graph) -> an operator for a shorter graph of the same kind"),
    "settings": (dict, "the settings that its graph is planned under"),
    "identity": (str, "the name under which its plans are kept on disk"),
    "donated": (int, "the position of the input whose memory results may take"),
}


def check(name: str, traits: dict):
    """TypeError for traits of an operator that do not exist, or whose value has another type."""
    for key, value in traits.items():
        if key not in TRAITS:
            raise TypeError(f"operator {name!r}: there is no trait {key!r} (core/traits.py lists them)")
        if value is not None and not isinstance(value, TRAITS[key][0]):
            raise TypeError(f"operator {name!r}: the trait {key!r} is {TRAITS[key][0]}, not {type(value).__name__}")
