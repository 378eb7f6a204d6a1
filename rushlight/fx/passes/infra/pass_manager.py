"""PassManager: passes in order."""
from __future__ import annotations

import inspect

from .pass_base import PassResult


class PassManager:
    """Runs passes one after the other, ``steps`` times over or until nothing changes.  TypeError for a pass that
    returns no PassResult."""

    check = None  # what `add_checks` was given

    def __init__(self, passes=None, constraints=None, steps=None, run_checks_after_each_pass=False,
                 suppress_check_failures=False):
        self.passes, self.constraints, self.steps = list(passes or ()), list(constraints or ()), steps or 1
        self.run_checks_after_each_pass = run_checks_after_each_pass

    def add_pass(self, one):
        self.passes.append(one)

    def add_checks(self, check):
        """Has ``check(module)`` called before the first pass and, with ``run_checks_after_each_pass``, after each; it
        raises where it finds a fault.  TypeError unless it takes one argument."""
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self.check = check

    def checked(self, module):
        """The module, after the check."""
        if self.check is not None:
            self.check(module)
        return module

    def __call__(self, module) -> PassResult:
        changed = False
        self.checked(module)
        for _ in range(self.steps):
            modified = False
            for one in self.passes:
                result = one(module)
                if not isinstance(result, PassResult):
                    raise TypeError(f"Result of the pass {one} should be type PassResult, not {type(result).__name__}")
                module, modified = result.graph_module, modified or result.modified
                if self.run_checks_after_each_pass:
                    self.checked(module).graph.lint()
            module.recompile()
            changed |= modified
            if not modified:
                break
        return PassResult(module, changed)
