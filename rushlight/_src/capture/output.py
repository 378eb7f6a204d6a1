"""Output of programs (prints, warnings, logs): recorded during capture and made in order at the end of the segment.

Strings that contain data-dependent numbers are made there too.
"""
from __future__ import annotations

import logging
import sys
import types
import warnings

from ..core.native import Tensor
from ..core.op import OPS
from .errors import Break
from .parts import CALLED, Part
from .polyfills import CaughtWarnings, quiet
from .values import Constant, Deferred, Number, Object, Sequence, TensorValue

LEVELS = {logging.Logger.debug: logging.DEBUG, logging.Logger.info: logging.INFO,
          logging.Logger.warning: logging.WARNING, logging.Logger.error: logging.ERROR,
          logging.Logger.critical: logging.CRITICAL}
# passed on unchanged, since their string form does not change
LASTING = (type, types.ModuleType, logging.Logger)
ROOT = {getattr(logging, method.__name__): method for method in LEVELS}


def logged(logger, level, place, message, *arguments):
    """``logger.log(level, message, *arguments)`` as if called at a source location (file, line, function)."""
    if logger is logging.root and not logger.handlers:
        logging.basicConfig()
    if logger.isEnabledFor(level):
        file, line, function = place
        logger.handle(logger.makeRecord(logger.name, level, file, line, message, arguments, None, function))


def warned(message, category, file, line, module, namespace):
    """``warnings.warn`` as if called at a source location."""
    warnings.warn_explicit(message, category, file, line, module, namespace.setdefault("__warningregistry__", {}))


class Output(Part, part="output"):
    """Capture component that records output.  ``notes``: Deferred statements, in order."""

    needs = "calls", "classes", "construction", "containers", "framework", "guarding", "numbers", "values"

    def __init__(self, machine):
        super().__init__(machine)
        self.notes: list = []  # statements of output, for the end of the segment
        # for each enclosing catch_warnings(): the categories that are ignored there, or None for other filters
        self.quiet: tuple = ()

    def deferred(self, template, operands, sample):
        """Return a string made after the graph has run; ``sample()`` makes a similar one now, to check that it can be
        made."""
        try:
            sample()
        except Exception as error:
            raise Break("RB007", f"a string that cannot be made: {type(error).__name__}: {error}") from error
        return Deferred(template, operands)

    def is_deferred(self, value) -> bool:
        return isinstance(value, Deferred) or isinstance(value, Number) and self.numbers.unknown(value)

    def sample_of(self, value):
        """Return a Python value of the type that an operand of a string will have."""
        return "" if isinstance(value, Deferred) else value.hint if isinstance(value, Number) else self.values.known(
            value)

    def formatted(self, value, specification):
        """``format(value, specification)`` of a data-dependent number, or of a 0-dim tensor."""
        if isinstance(value, TensorValue):
            if value.fake._rush_meta.shape:
                raise Break("RB003", "formatting a tensor")
            value = self.framework.run_framework(type(value.fake).item, [value], {})
        return self.deferred("format({0}, {1})", [value, Constant(specification)],
                             lambda: format(self.sample_of(value), specification))

    def joined(self, parts):
        """``"".join(parts)``."""
        return self.deferred("''.join([" + ", ".join(f"{{{k}}}" for k in range(len(parts))) + "])", parts, lambda: None)

    def percent(self, template, value):
        """``template % value``, None if Python can evaluate it now."""
        values = self.containers.items_of(value) if getattr(value, "kind", None) is tuple else [value]
        values = [self.values.force(v) for v in values]
        if not any(map(self.is_deferred, values)):
            return None
        places = ", ".join(f"{{{k + 1}}}" for k in range(len(values)))
        return self.deferred(f"{{0}} % ({places},)", [template, *values],
                             lambda: template.value % tuple(map(self.sample_of, values)))

    def text_format(self, template, arguments, keywords):
        """``template.format(...)``, None if Python can evaluate it now."""
        given = [self.values.force(v) for v in (*arguments, *keywords.values())]
        if not any(map(self.is_deferred, given)):
            return None
        named = [*(f"{{{k + 1}}}" for k in range(len(arguments))),
                 *(f"{n}={{{k + 1 + len(arguments)}}}" for k, n in enumerate(keywords))]
        count = len(arguments)
        return self.deferred(f"{{0}}.format({', '.join(named)})", [template, *given], lambda: template.value.format(
            *map(self.sample_of, given[:count]), **dict(zip(keywords, map(self.sample_of, given[count:])))))

    # --- statements ---------------------------------------------------------------------------------------------------
    def note(self, template, operands):
        """Record a statement for the end of the segment, before other side effects."""
        self.notes.append(Deferred(template, operands))
        return Constant(None)

    def as_shown(self, value):
        """Return an argument of output in its current state."""
        value = self.values.force(value)
        if isinstance(value, TensorValue):
            if value.fake._rush_needs_grad or self.classes.class_of(value) is not Tensor:
                raise Break("RB009", "output of a tensor that has a history")
            return self.framework.run_framework(OPS["clone"], [value], {})
        if isinstance(value, (Constant, Number, Deferred)):
            return value
        return Constant(str(self.values.known(value)))

    def reordered(self, function, arguments, keywords):
        """Record a call of a function that users declared to be output."""
        return self.put_off(function, [self.as_passed(a) for a in arguments],
                            {k: self.as_passed(v) for k, v in keywords.items()})

    def put_off(self, function, arguments, keywords):
        """Record a call that Python makes after the graph has run."""
        given = [function, *arguments, *keywords.values()]
        places = [*(f"{{{k + 1}}}" for k in range(len(arguments))),
                  *(f"{name}={{{k + 1 + len(arguments)}}}" for k, name in enumerate(keywords))]
        return self.note(f"{{0}}({', '.join(places)})", given)

    def as_passed(self, value):
        """Return an argument of such a function in its current state."""
        value = self.values.force(value)
        if isinstance(value, Sequence) and value.kind in (list, tuple):
            return Sequence(value.kind, [self.as_passed(self.containers.item(value, k))
                                         for k in range(len(value.items))])
        if isinstance(value, Object) and isinstance(value.value, LASTING):
            return value
        return self.as_shown(value) if isinstance(value, (TensorValue, Constant, Number,
                                                          Deferred)) else Object(self.values.known(value),
                                                                                 self.guarding.constant_source(
                                                                                     self.values.known(value)))

    @CALLED.by(print)
    def printed(self, *values, sep=Constant(None), end=Constant(None), file=Constant(None), flush=Constant(False)):
        """``print(...)``."""
        shown = [self.as_shown(v) for v in values]
        options = [self.values.force(v) for v in (sep, end, file, flush)]
        if not all(isinstance(v, Constant) or isinstance(v, Object) and v.value in (sys.stdout, sys.stderr)
                   for v in options):
            raise Break("RB009", "print() into a file")
        places = [f"{{{k}}}" for k in range(len(shown))]
        named = [f"{name}={{{len(shown) + k}}}" for k, name in enumerate(("sep", "end", "file", "flush"))]
        return self.note(f"print({', '.join([*places, *named])})", [*shown, *options])

    @CALLED.by(warnings.warn)
    def warn(self, message, category=Constant(None), stacklevel=Constant(1), source=Constant(None), **others):
        """``warnings.warn(...)``."""
        kind, level = self.values.known(category) or UserWarning, self.values.known(stacklevel)
        frames = [f for f in self.machine.frames if f.now is not None]
        if self.quiet:
            if None in self.quiet:
                raise Break("RB009", "warn() under a custom filter")
            if any(issubclass(kind, ignored) for ignored in self.quiet):
                return Constant(None)
        if others or not 1 <= level <= len(frames) or any(action == "error" for action, *_ in warnings.filters):
            raise Break("RB009", "warn() that may raise, or of code that is not captured")
        frame = frames[-level]
        text = self.as_shown(message)
        if isinstance(text, (Constant, Deferred)) and isinstance(getattr(text, "value", ""), str):
            place = [Constant(v) for v in (frame.code.co_filename, frame.now.line, frame.namespace.get("__name__")
                                           or "<string>")]
            return self.note("WARN({0}, {1}, {2}, {3}, {4}, {5})",
                             [text, self.values.from_python(kind), *place, self.values.from_python(frame.namespace)])
        raise Break("RB009", "warn() with a warning object")

    @CALLED.by(warnings.catch_warnings)
    def catch_warnings(self, **options):
        """``warnings.catch_warnings()``: within it, capture tracks the ignored categories."""
        if options.keys() - {"record"} or "warnings" in self.machine.rules:
            return self.construction.instantiate(self.values.from_python(warnings.catch_warnings), [], options)
        return self.construction.instantiate(self.values.from_python(CaughtWarnings), [], options)

    @CALLED.by(quiet)
    def filters(self, *filters):
        """Return the active filters, or restore others."""
        if filters:
            self.quiet = (*filters[0].value, *map(self.values.known, filters[1:]))
        else:
            before, self.quiet = self.quiet, (*self.quiet, ())
            return Constant(before)
        return Constant(None)

    @CALLED.by(warnings.simplefilter, warnings.filterwarnings, told=True)
    def filter(self, function, action, *rest, **options):
        """``simplefilter`` and ``filterwarnings``: one more ignored category, or (None) a filter that capture does not
        evaluate."""
        if not self.quiet:
            return self.calls.inline(self.calls.as_function(self.values.from_python(function)), [action, *rest],
                                     options)
        category = options.pop("category", rest[0] if rest and function is warnings.simplefilter else Constant(Warning))
        whole = self.values.known(action) == "ignore" and not options and len(rest) <= (
            function is warnings.simplefilter)
        self.quiet = (*self.quiet[:-1], (*self.quiet[-1], self.values.known(category)) if whole
                      and self.quiet[-1] is not None
                      else None)
        return Constant(None)

    def log(self, logger, level, message=None, *arguments, **others):
        """Record a message of a Logger."""
        logger = self.values.force(logger)
        if message is None or others or not isinstance(logger, Object):
            raise Break("RB009", "logging with options")
        frame = self.machine.frames[-1]
        place = Constant((frame.code.co_filename, frame.now.line, frame.code.co_name))
        operands = [logger, Constant(level), place, *map(self.as_logged, (message, *arguments))]
        return self.note(f"LOG({', '.join(f'{{{k}}}' for k in range(len(operands)))})", operands)

    @CALLED.by(*LEVELS, told=True)
    def log_at(self, method, logger, *arguments, **others):
        return self.log(logger, LEVELS[method], *arguments, **others)

    @CALLED.by(*ROOT, told=True)
    def log_to_root(self, function, *arguments, **others):
        return self.log(self.values.from_python(logging.root), LEVELS[ROOT[function]], *arguments, **others)

    def as_logged(self, value):
        """Return an argument of a message, which ``%`` formats later."""
        value = self.values.force(value)
        return value if isinstance(value, Object) and isinstance(value.value, LASTING) else self.as_shown(value)


    @CALLED.by(logging.Logger.isEnabledFor)
    def log_enabled(self, logger, level):
        """``logger.isEnabledFor(level)``, guarded."""
        logger, level = self.values.force(logger), self.values.known(level)
        if not isinstance(logger, Object):
            raise Break("RB009", "an unknown logger")
        enabled = logger.value.isEnabledFor(level)
        self.guarding.guard(f"{{0}}.isEnabledFor({self.guarding.literal(level)}) is {enabled}",
                   logger.source or self.guarding.constant_source(logger.value))
        return Constant(enabled)

    @CALLED.by(logging.getLogger)
    def logger_named(self, name=Constant(None)):
        """``logging.getLogger(name)``: one logger for each name."""
        return self.values.from_python(logging.getLogger(self.values.known(name)))
