"""Compiling operators and comparisons: on machine numbers directly, on objects through the C API."""

import ast

from .expressions import condition, constant, handles, is_simple, operands
from .types import ARGS, BOOL, DICT, F64, I64, NONE, OBJECT, SCALARS, Value

NUMBER = {
    ast.Add: "Add", ast.Sub: "Subtract", ast.Mult: "Multiply", ast.MatMult: "MatrixMultiply", ast.Div: "TrueDivide",
    ast.FloorDiv: "FloorDivide",
    ast.Mod: "Remainder", ast.BitAnd: "And", ast.BitOr: "Or", ast.BitXor: "Xor", ast.LShift: "Lshift",
    ast.RShift: "Rshift", ast.Pow: "Power",
}
INTEGER = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"}
DOUBLE = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul"}


@handles(ast.BinOp)
def binary(f, node):
    return apply(f, node, node.op, *operands(f, node.left, node.right))


def apply(f, node, operator, left, right, in_place=False):
    """A binary operator on two values."""
    if left.type in SCALARS and right.type in SCALARS:
        return arithmetic(f, node, operator, left, right)
    left = f.keep(f.boxed(left))
    right = f.keep(f.boxed(right))
    arguments = [f"ptr {f.solid(left).ir}", f"ptr {f.solid(right).ir}"]
    helper = f"@PyNumber_{'InPlace' * (in_place and not isinstance(operator, ast.Pow))}{NUMBER[type(operator)]}"
    if isinstance(operator, ast.Pow):
        arguments.append(f"ptr {f.builtin('None').ir}")
    result = f.new_reference(OBJECT, f.code.call("ptr", helper, *arguments))
    f.release(right, left)
    return result


def arithmetic(f, node, operator, left, right):
    """An operator on machine numbers; integers wrap at 64 bits."""
    kind = type(operator)
    if F64 in (left.type, right.type) or kind is ast.Div:
        left, right = f.convert(left, F64, "an operand"), f.convert(right, F64, "an operand")
        if kind in DOUBLE:
            return Value(F64, f.code.op(f"{DOUBLE[kind]} double {left.ir}, {right.ir}"))
        helper = {ast.Div: "true_divide", ast.FloorDiv: "floor_divide_f64", ast.Mod: "remainder_f64"}.get(kind)
        if helper is None:
            raise f.unsupported(node, f"{kind.__name__} of machine numbers")
        return f.flagged(F64, f.code.call("{double, i1}", f"@{helper}", f"double {left.ir}", f"double {right.ir}"))
    if left.type is BOOL and right.type is BOOL and kind in (ast.BitAnd, ast.BitOr, ast.BitXor):
        return Value(BOOL, f.code.op(f"{INTEGER[kind]} i1 {left.ir}, {right.ir}"))
    left, right = f.convert(left, I64, "an operand"), f.convert(right, I64, "an operand")
    if kind in INTEGER:
        return Value(I64, f.code.op(f"{INTEGER[kind]} i64 {left.ir}, {right.ir}"))
    if kind in (ast.LShift, ast.RShift):
        return shift(f, kind, left, right)
    helper = {ast.FloorDiv: "floor_divide", ast.Mod: "remainder"}.get(kind)
    if helper is None:
        raise f.unsupported(node, f"{kind.__name__} of machine integers")
    return f.flagged(I64, f.code.call("{i64, i1}", f"@{helper}", f"i64 {left.ir}", f"i64 {right.ir}"))


def shift(f, kind, left, right):
    if right.constant is None:
        f.raise_if(f.code.op(f"icmp slt i64 {right.ir}, 0"), "raise_shift")
    elif right.constant < 0:
        raise f.unsupported(f.node, "a negative shift count")
    if kind is ast.RShift:
        count = f.code.call("i64", "@llvm.smin.i64", f"i64 {right.ir}", "i64 63")
        return Value(I64, f.code.op(f"ashr i64 {left.ir}, {count}"))
    count = f.code.call("i64", "@llvm.smin.i64", f"i64 {right.ir}", "i64 63")
    moved = f.code.op(f"shl i64 {left.ir}, {count}")
    return Value(I64, f.code.select(f.code.op(f"icmp sgt i64 {right.ir}, 63"), "i64", "0", moved))


@handles(ast.UnaryOp)
def unary(f, node):
    value = f.value(node.operand)
    if isinstance(node.op, ast.Not):
        return Value(BOOL, f.code.op(f"xor i1 {f.truth(value).ir}, true"))
    if value.type is F64 and isinstance(node.op, (ast.USub, ast.UAdd)):
        return Value(F64, f.code.op(f"fneg double {value.ir}")) if isinstance(node.op, ast.USub) else value
    if value.type in (I64, BOOL):
        if isinstance(value.constant, int) and isinstance(node.op, ast.USub):
            return constant(f, ast.Constant(-value.constant))
        number = f.convert(value, I64, "an operand")
        text = {ast.USub: f"sub i64 0, {number.ir}", ast.Invert: f"xor i64 {number.ir}, -1",
                ast.UAdd: f"add i64 {number.ir}, 0"}[type(node.op)]
        return Value(I64, f.code.op(text))
    helper = {ast.USub: "Negative", ast.UAdd: "Positive", ast.Invert: "Invert"}[type(node.op)]
    value = f.keep(f.boxed(value))
    result = f.new_reference(OBJECT, f.code.call("ptr", f"@PyNumber_{helper}", f"ptr {f.solid(value).ir}"))
    f.release(value)
    return result


# -- comparisons

RICH = {ast.Lt: 0, ast.LtE: 1, ast.Eq: 2, ast.NotEq: 3, ast.Gt: 4, ast.GtE: 5}
SIGNED = {ast.Lt: "slt", ast.LtE: "sle", ast.Eq: "eq", ast.NotEq: "ne", ast.Gt: "sgt", ast.GtE: "sge"}
ORDERED = {ast.Lt: "olt", ast.LtE: "ole", ast.Eq: "oeq", ast.NotEq: "une", ast.Gt: "ogt", ast.GtE: "oge"}


@handles(ast.Compare)
def comparison(f, node):
    if len(node.ops) == 1:
        return compare(f, node, node.left, node.ops[0], node.comparators[0])
    if not all(is_simple(middle) for middle in node.comparators[:-1]):
        raise f.unsupported(node, "a chain of comparisons around anything but a name")
    lefts = [node.left, *node.comparators[:-1]]
    links = [ast.copy_location(ast.Compare(a, [op], [b]), node) for a, op, b in zip(lefts, node.ops, node.comparators)]
    return Value(BOOL, condition(f, ast.copy_location(ast.BoolOp(ast.And(), links), node)))


def compare(f, node, left_node, operator, right_node):
    if isinstance(operator, (ast.In, ast.NotIn)):
        return _negate_if(f, isinstance(operator, ast.NotIn), contains(f, node, left_node, right_node))
    left, right = operands(f, left_node, right_node)
    if isinstance(operator, (ast.Is, ast.IsNot)):
        return _negate_if(f, isinstance(operator, ast.IsNot), identity(f, left, right))
    if left.type in SCALARS and right.type in SCALARS:
        return compare_scalars(f, type(operator), left, right)
    left = f.keep(f.boxed(left))
    right = f.keep(f.boxed(right))
    how = RICH[type(operator)]
    helper = "@equal" if how in (2, 3) and left.type.cls is None else "@compare"
    answer = f.truth_value(f.code.call("i8", helper, f"ptr {f.solid(left).ir}", f"ptr {f.solid(right).ir}",
                                       f"i32 {how}"))
    f.release(right, left)
    return answer


def compare_scalars(f, kind, left, right):
    if F64 in (left.type, right.type):
        left, right = f.convert(left, F64, "an operand"), f.convert(right, F64, "an operand")
        return Value(BOOL, f.code.op(f"fcmp {ORDERED[kind]} double {left.ir}, {right.ir}"))
    left, right = f.convert(left, I64, "an operand"), f.convert(right, I64, "an operand")
    return Value(BOOL, f.code.op(f"icmp {SIGNED[kind]} i64 {left.ir}, {right.ir}"))


def identity(f, left, right):
    for one, other in ((left, right), (right, left)):
        if other.type is NONE:
            answer = Value(BOOL, "true" if one.type is NONE else "false" if one.type in SCALARS else f.is_none(one))
            f.release(*([one] if one.type.is_reference else []))
            return answer
    left, right = f.boxed(left), f.boxed(right)
    answer = Value(BOOL, f.code.op(f"icmp eq ptr {f.solid(left).ir}, {f.solid(right).ir}"))
    f.release(right, left)
    return answer


def contains(f, node, left_node, right_node):
    if isinstance(right_node, (ast.Tuple, ast.List)) and is_simple(left_node):
        links = [ast.copy_location(ast.Compare(left_node, [ast.Eq()], [element]), node) for element in right_node.elts]
        if not links:
            return Value(BOOL, "false")
        return Value(BOOL, condition(f, ast.copy_location(ast.BoolOp(ast.Or(), links), node)))
    element, container = operands(f, left_node, right_node)
    element, container = f.keep(f.boxed(element)), f.keep(container)
    helper = "@PySequence_Contains"
    if container.type is DICT:
        f.require(container, "__contains__")
        helper = "@PyDict_Contains"
    container = f.keep(f.boxed(container)) if container.type is ARGS else container
    found = f.code.call("i32", helper, f"ptr {f.solid(container).ir}", f"ptr {f.solid(element).ir}")
    f.check_status(found)
    f.release(container, element)
    return Value(BOOL, f.code.op(f"icmp ne i32 {found}, 0"))


def _negate_if(f, wanted, value):
    return Value(BOOL, f.code.op(f"xor i1 {value.ir}, true")) if wanted else value
