"""Watching: an interpreter that sees each operator call and runs it unchanged."""
from __future__ import annotations

from .interpret import Interpreter, Suspended
from .native import Op
from .op import body_of


class Watching(Interpreter):
    """Override ``around(op, args, kwargs, run)``: ``run()`` computes the call. The operators that composites call are
    seen as well."""

    def call(self, op: Op, args, kwargs):
        def run():
            if op.traits.get("composite"):
                return body_of(op, args)(*args, **kwargs)
            with Suspended(self):
                return op(*args, **kwargs)

        return self.around(op, args, kwargs, run)

    def around(self, op: Op, args, kwargs, run):
        raise NotImplementedError(f"{type(self).__name__} must define around(op, args, kwargs, run)")

