"""Exceptions: raised, caught, nested, chained, with finally and else, by Python and by tensor operations."""
import rushlight as torch

from .table import case


class Problem(Exception):
    def __init__(self, code, text="t"):
        super().__init__(f"{code}: {text}")
        self.code = code


class Plain(ValueError):
    pass


def fails(error):
    raise error


@case()
def raised_and_caught(x):
    try:
        raise ValueError("a")
    except ValueError as error:
        return x + 1, str(error), error.args


@case()
def raised_by_class(x):
    try:
        raise ValueError
    except ValueError as error:
        return x, repr(error), error.args


@case()
def uncaught(x):
    y = x + 1
    raise RuntimeError("out", y.dim())


@case()
def uncaught_custom(x):
    raise Problem(3)


@case()
def custom_caught(x):
    try:
        raise Problem(5, text="z")
    except Problem as error:
        return error.code, str(error), x


@case()
def caught_by_base(x):
    try:
        raise Plain("p")
    except (KeyError, ValueError) as error:
        return type(error).__name__, isinstance(error, Plain), x


@case()
def else_branch(x):
    try:
        y = x + 1
    except ValueError:
        y = x
    else:
        y = y * 2
    return y


@case()
def finally_runs(x):
    log = []
    try:
        log.append(1)
    finally:
        log.append(2)
    return log, x


@case()
def finally_runs_on_error(x):
    log = []
    try:
        try:
            raise KeyError("k")
        finally:
            log.append("f")
    except KeyError:
        log.append("c")
    return log, x


@case()
def finally_overrides_return(x):
    def run():
        try:
            return 1
        finally:
            return 2  # noqa: B012

    return run(), x


@case()
def finally_in_loop(x):
    log = []
    for k in range(3):
        try:
            if k == 1:
                continue
            if k == 2:
                break
        finally:
            log.append(k)
    return log, x


@case()
def return_in_try(x):
    log = []

    def run():
        try:
            return x + 1
        finally:
            log.append("left")

    return run(), log


@case()
def nested_try(x):
    try:
        try:
            raise ValueError("inner")
        except KeyError:
            return "wrong"
    except ValueError as error:
        return str(error), x


@case()
def reraise(x):
    log = []
    try:
        try:
            raise ValueError("v")
        except ValueError:
            log.append("first")
            raise
    except ValueError as error:
        return log, str(error), x


@case()
def raise_from(x):
    try:
        try:
            raise KeyError("low")
        except KeyError as low:
            raise ValueError("high") from low
    except ValueError as error:
        return str(error), repr(error.__cause__), x


@case()
def raise_from_none(x):
    try:
        try:
            raise KeyError("low")
        except KeyError:
            raise ValueError("high") from None
    except ValueError as error:
        return error.__cause__, error.__suppress_context__, x


@case()
def implicit_context(x):
    try:
        try:
            raise KeyError("low")
        except KeyError:
            raise ValueError("high")
    except ValueError as error:
        return repr(error.__context__), x


@case()
def error_variable_is_deleted(x):
    try:
        raise ValueError
    except ValueError as error:
        pass
    try:
        error
    except NameError:
        return "deleted", x


@case()
def out_of_a_callee(x):
    try:
        fails(ValueError("deep"))
    except ValueError as error:
        return str(error), x * 2


@case()
def out_of_deep_calls(x):
    def a():
        b()

    def b():
        try:
            c()
        except KeyError:
            return "wrong"

    def c():
        raise ValueError("c")

    try:
        a()
    except ValueError as error:
        return str(error), x


@case()
def out_of_a_comprehension(x):
    try:
        [1 // k for k in (1, 0)]
    except ZeroDivisionError as error:
        return str(error), x


@case()
def in_a_loop(x):
    out = []
    for k in range(4):
        try:
            if k % 2:
                raise ValueError(k)
            out.append(x + k)
        except ValueError as error:
            out.append(error.args[0])
    return out


@case()
def index_error(x):
    try:
        [1, 2][5]
    except IndexError as error:
        return str(error), x


@case()
def key_error(x):
    try:
        {"a": 1}["b"]
    except KeyError as error:
        return str(error), error.args, x


@case()
def attribute_error(x):
    try:
        (1).nothing
    except AttributeError as error:
        return str(error), x


@case()
def attribute_error_of_tensor(x):
    try:
        x.nothing
    except AttributeError:
        return x


@case()
def type_error_of_operator(x):
    try:
        1 + "a"
    except TypeError as error:
        return str(error), x


@case()
def type_error_of_list(x):
    try:
        [1] + (2,)
    except TypeError as error:
        return str(error), x


@case()
def value_error_of_int(x):
    try:
        int("z")
    except ValueError as error:
        return str(error), x


@case()
def value_error_of_unpack(x):
    try:
        a, b = [1, 2, 3]
    except ValueError as error:
        return str(error), x


@case()
def zero_division(x):
    return x, 1 / 0


@case()
def zero_modulo(x):
    try:
        5 % 0
    except ZeroDivisionError as error:
        return str(error), x


@case()
def name_error(x):
    return undefined_name + x  # noqa: F821


@case()
def assertion(x):
    assert x.dim() == 2, f"rank {x.dim()}"
    return x


@case()
def assertion_without_text(x):
    try:
        assert x.dim() == 2
    except AssertionError as error:
        return str(error), x


@case()
def stop_iteration(x):
    it = iter([1])
    next(it)
    try:
        next(it)
    except StopIteration as error:
        return error.value, x


@case()
def not_implemented(x):
    raise NotImplementedError


@case()
def type_error_not_iterable(x):
    for _ in 5:
        pass
    return x


@case()
def type_error_not_callable(x):
    five = 5
    return five(x)


@case()
def type_error_unhashable(x):
    return {[1]: x}


@case()
def list_remove_missing(x):
    try:
        [1].remove(2)
    except ValueError as error:
        return str(error), x


@case(breaks="RB007")
def pop_from_empty(x):
    out = []
    for make in (list, dict, set):
        try:
            make().pop()
        except Exception as error:
            out.append((type(error).__name__, str(error)))
    return out, x


@case()
def error_as_value(x):
    error = ValueError("kept", 3)
    return error.args, str(error), isinstance(error, Exception), x


@case()
def error_with_note(x):
    error = ValueError("a")
    error.add_note("note")
    return error.__notes__, x


@case()
def error_group(x):
    try:
        raise ExceptionGroup("g", [ValueError(1)])
    except ExceptionGroup as error:
        return len(error.exceptions), error.message, x


@case(breaks="RB007")
def shape_error(x):
    y = x + 1
    try:
        return y @ torch.ones(7, 2)
    except RuntimeError:
        return "shape", y


@case(breaks="RB007")
def shape_error_uncaught(x):
    return (x + 1).view(3, 3)


@case(breaks="RB007")
def tensor_type_error(x):
    try:
        return x + "a"
    except TypeError:
        return x


@case(breaks="RB007")
def dimension_error(x):
    try:
        return x.sum(5)
    except IndexError:
        return x


@case(2, "RB007")
def graph_goes_on_after_error(x):
    y = x * 2
    try:
        torch.cat([y, torch.ones(2, 2)])
    except RuntimeError:
        y = y + 1
    return y * 3


@case(given=lambda: ([],))
def mutation_before_error_stays(x, log):
    log.append("before")
    raise ValueError("after the mutation")


@case()
def control_by_exceptions(x):
    class_ = (StopIteration, KeyError)
    out = []
    for k in range(3):
        try:
            if k == 0:
                raise KeyError(k)
            elif k == 1:
                raise StopIteration(k)
            out.append("none")
        except class_ as e:
            out.append(type(e).__name__)
        finally:
            out.append(k)
    return out, x


@case()
def checks_of_sizes(x):
    torch._assert(x.shape[0] > 1, "too small")
    torch._assert(x.dim() == 1, f"{x.dim()} dimensions")
    return x + 1


@case(0)
def check_that_fails(x):
    torch._assert(x.shape[0] == 1000, f"{x.shape[0]} rows")
    return x + 1
