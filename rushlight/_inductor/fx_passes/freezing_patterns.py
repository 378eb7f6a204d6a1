"""Patterns that libraries register for frozen graphs: ``freezing_passes`` applies them to a graph of operators."""
from __future__ import annotations

from ..pattern_matcher import PatternMatcherPass, always, register_graph_pattern

pass_patterns = [PatternMatcherPass(f"freezing {k}") for k in range(3)]


def register_freezing_graph_pattern(pattern, extra_check=always, pass_number=0):
    """A decorator: its function is called wherever ``freezing_passes`` finds the pattern, passes in order.

    ``torch.compile`` does not call it: with the option ``freezing`` programs find integer layers themselves.
    """
    return register_graph_pattern(pattern, extra_check, pass_dict=pass_patterns[pass_number])


def freezing_passes(gm, aot_example_inputs=()):
    """Applies what was registered to a graph module, which is changed."""
    for each in pass_patterns:
        each.apply(gm.graph)
    gm.graph.lint()
    gm.recompile()
