"""Printing, warnings, logging, and strings of unbacked numbers: done at the end of the graph, in order."""
import contextlib
import io
import logging
import sys
import warnings

import rushlight as torch
from rushlight.compiler import graph_break

from .table import case


class Lines(logging.Handler):
    """Prints what is logged, with its place."""

    def emit(self, record):
        print(record.levelname, record.filename, record.lineno, record.funcName, record.getMessage())


log = logging.getLogger("features")
log.setLevel(logging.INFO)
log.addHandler(Lines())
log.propagate = False


@case()
def print_around(x):
    print("start")
    y = x * 2
    print("end", y.shape, y.dtype, [1, (2, "b")], {"k": None}, sep="|", end="!", flush=True)
    return y + 1


@case()
def print_a_tensor_that_changes(x):
    y = x + 1
    print("y is", y)
    y.mul_(2)
    print(y)
    return y


@case()
def print_a_list_that_changes(x):
    a = [1]
    print(a)
    a.append(2)
    print(a)
    return x + 1, a


@case()
def print_numbers_of_tensors(x):
    v = (x + 1).sum().item()
    print(f"v {v:.3f} {x.sum():.2f} {v!r:>9}|", "%.2f and %d" % (v, 3), "{:>8.2f} {k}".format(v, k=2), str(v))
    return x * v


@case()
def texts_of_numbers(x):
    n = (x > 0).sum().item()
    return f"{n} of {x.shape[0]}" + "!", str(n), "%d%%" % n, x


@case(2, "RB003")
def text_that_decides(x):
    return x + 1 if f"{(x > 0).sum().item()}" == "1" else x


@case(2, "RB009", given=lambda: (torch.ones(4, requires_grad=True),))
def print_a_tensor_with_history(x, w):
    y = w * 2
    print(y.sum() > 3, y)
    return y + 1


@case(2, "RB006")
def print_before_a_break(x):
    print("one")
    y = x + 1
    graph_break()
    print("two", y)
    return y * 2


@case()
def print_before_an_error(x):
    try:
        print("inside")
        raise ValueError("a")
    except ValueError as error:
        print("caught", error)
    raise KeyError("b")


def helper(x):
    print("helper", x.shape)
    return x + 1


@case()
def print_in_a_generator_and_a_helper(x):
    return [helper(v) for v in (x, x * 2)], list(print(k) for k in range(2))


@case(1, ("RB001", "RB004"))
def print_redirected(x):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print("in")
    return x + 1, text.getvalue()


@case(1, ("RB001", "RB009") if sys.version_info >= (3, 14) else ("RB001", "RB004", "RB009"))
def warning_recorded(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("careful")
    return x + 1, [str(w.message) for w in caught]


@case()
def warnings_that_are_ignored_in_a_block(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        careful(x)
        warnings.warn("seen")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore")
            warnings.warn("unseen")
    warnings.warn("after", DeprecationWarning)
    return x + 1


def careful(x):
    warnings.warn(f"careful with {x.dim()}", DeprecationWarning, stacklevel=2)
    return x * 2


@case()
def warning(x):
    warnings.warn("once")
    return careful(x) + 1


@case()
def logging_of_all_levels(x):
    y = x + 1
    log.debug("hidden %s", y.sum().item())
    log.info("shape %s of %s", y.shape, y.dtype)
    log.warning("sum %.2f", y.sum().item())
    log.error("%s", y)
    return y * 2


@case()
def logging_disabled(x):
    if log.isEnabledFor(logging.DEBUG):
        x = x + 1
    return x * 2


@case(1, "RB009")
def logger_changed(x):
    log.setLevel(logging.ERROR)
    log.info("no longer")
    log.setLevel(logging.INFO)
    logging.getLogger("features").info("again")
    return x + 1


@case()
def print_to_stderr(x):
    print("quiet", end="", file=sys.stderr)
    return x + 1
