"""Einstein summation: parsing, and contraction of operands two at a time by matmul."""
from __future__ import annotations

from ..core.shape_env import guess
from ..core.meta import product

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def parse(equation, operands):
    """Labels of each operand and of the result; an ellipsis becomes labels (-1, -2, ...) counted from the right."""
    text = equation.replace(" ", "")
    inputs, arrow, result = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(operands):
        raise RuntimeError(
            f"einsum(): {'more' if len(terms) < len(operands) else 'fewer'} operands were provided than specified in "
            f"the equation: {len(operands)} for {len(terms)}")
    parsed = [labels(term, x.dim()) for term, x in zip(terms, operands)]
    hidden = max((-min(t) for t in parsed if t and any(isinstance(c, int) for c in t)
                  for t in [[c for c in t if isinstance(c, int)]]), default=0)
    rest = list(range(-hidden, 0))
    if arrow:
        out = labels(result, None, hidden)
        known = {c for t in parsed for c in t}
        for c in out:
            if c not in known:
                raise RuntimeError(
                    f"einsum(): output subscript {c} does not appear in the equation for any input operand")
        if len(set(out)) != len(out):
            raise RuntimeError("einsum(): output subscript appears more than once in the output")
    else:
        counts = {}
        for t in parsed:
            for c in t:
                counts[c] = counts.get(c, 0) + 1
        out = rest + sorted(c for c, n in counts.items() if n == 1 and isinstance(c, str))
    return parsed, out


def equation_of(values) -> tuple:
    """Return the equation and the operands of the variant ``operand, subscripts, operand, subscripts, ..., [subscripts
    of the result]``, whose subscripts are lists of integers from 0 to 51 and Ellipsis."""
    result = "->" + subscripts(values[-1]) if len(values) % 2 else ""
    pairs = values[:len(values) - len(values) % 2]
    return ",".join(map(subscripts, pairs[1::2])) + result, pairs[::2]


def subscripts(values) -> str:
    """Letters of a list of subscripts.  ValueError for anything but an integer from 0 to 51 or Ellipsis."""
    for value in values:
        if value is not Ellipsis and not 0 <= value < len(LETTERS):
            raise ValueError(f"einsum(): subscripts must be numbers from 0 to {len(LETTERS) - 1} or Ellipsis, but got "
                             f"{value!r}")
    return "".join("..." if value is Ellipsis else LETTERS[value] for value in values)


def labels(term, rank, hidden=0):
    before, dots, after = term.partition("...")
    for c in before + after:
        if c not in LETTERS:
            raise RuntimeError(f"einsum(): invalid subscript given: {c!r}, subscripts must be in [a-zA-Z]")
    if not dots:
        if rank is not None and len(before) != rank:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(before)}) does not match the number of "
                f"dimensions ({rank}) for an operand")
        return list(before)
    count = hidden if rank is None else rank - len(before) - len(after)
    if count < 0:
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation is more than the number of dimensions ({rank})")
    return list(before) + list(range(-count, 0)) + list(after)


def diagonalised(x, names):
    """Take the diagonal along repeated labels of one operand."""
    for c in list(dict.fromkeys(names)):
        while names.count(c) > 1:
            a = names.index(c)
            b = names.index(c, a + 1)
            if x.size(a) != x.size(b):
                raise RuntimeError(
                    f"einsum(): subscript {c} is repeated for an operand but the sizes don't match, {x.size(b)} != "
                    f"{x.size(a)}")
            x = x.diagonal(0, a, b)
            names = [n for k, n in enumerate(names) if k not in (a, b)] + [c]
    return x, names


def contract(equation, operands):
    """The result of an equation, operands contracted two at a time."""
    parsed, out = parse(equation, operands)
    terms = [diagonalised(x, names) for x, names in zip(operands, parsed)]
    sizes = {}
    for x, names in terms:
        for c, n in zip(names, x.shape):
            if c in sizes and sizes[c] != n and 1 not in (sizes[c], n):
                raise RuntimeError(
                    f"einsum(): subscript {c} has size {n} for an operand which does not broadcast with previously "
                    f"seen size {sizes[c]}")
            sizes[c] = n if sizes.get(c, 1) == 1 else sizes[c]
    while len(terms) > 1:
        first, second = smallest_pair(terms, out, sizes)
        y, x = terms.pop(second), terms.pop(first)
        terms.insert(first, pair(*x, *y, wanted(terms, out), sizes))
    x, names = terms[0]
    x, names = summed(x, names, [c for c in names if c not in out])
    return x.permute([names.index(c) for c in out]) if names != out else x


def wanted(terms, out) -> set:
    """Labels of the result, or of some of these operands."""
    return set(out).union(*(names for _, names in terms))


def smallest_pair(terms, out, sizes):
    """Indices of the two operands whose contraction has the smallest result; the leftmost of several."""
    def left(k, j):
        needed = wanted([t for n, t in enumerate(terms) if n not in (k, j)], out)
        return volume(needed & {*terms[k][1], *terms[j][1]}, sizes) - volume(terms[k][1], sizes) - volume(terms[j][1],
                                                                                                          sizes)

    return min(((k, j) for j in range(1, len(terms)) for k in range(j)), key=lambda both: left(*both))


def volume(names, sizes):
    return guess(product(sizes[c] for c in names))


def summed(x, names, gone):
    if not gone:
        return x, names
    return x.sum([names.index(c) for c in gone]), [c for c in names if c not in gone]


def aligned(x, names, order):
    """Permute x to this order of dimensions, with size 1 for missing ones."""
    x = x.permute([names.index(c) for c in order if c in names])
    return x.reshape([x.size([d for d in order if d in names].index(c)) if c in names else 1 for c in order])


def pair(x, a, y, b, needed, sizes):
    """Contract two operands into one, by a batched matmul over their common labels."""
    x, a = summed(x, a, [c for c in a if c not in needed and c not in b])
    y, b = summed(y, b, [c for c in b if c not in needed and c not in a])
    shared = [c for c in a if c in b]
    batch = [c for c in shared if c in needed]
    inner = [c for c in shared if c not in needed]
    left, right = [c for c in a if c not in b], [c for c in b if c not in a]
    full_a, full_b = batch + left + inner, batch + inner + right
    x, y = aligned(x, a, full_a), aligned(y, b, full_b)
    x = x.expand([sizes[c] if c in batch + inner else n for c, n in zip(full_a, x.shape)])
    y = y.expand([sizes[c] if c in batch + inner else n for c, n in zip(full_b, y.shape)])
    if not inner:
        x = x.reshape([*x.shape[:len(batch) + len(left)], *[1] * len(right)])
        y = y.reshape([*y.shape[:len(batch)], *[1] * len(left), *y.shape[len(batch):]])
        return x * y, batch + left + right
    lead = tuple(x.shape[:len(batch)])
    rows, columns = tuple(x.shape[len(batch):len(batch) + len(left)]), tuple(y.shape[len(batch) + len(inner):])
    depth = product(x.shape[len(batch) + len(left):])
    z = x.reshape(product(lead), product(rows), depth) @ y.reshape(product(lead), depth, product(columns))
    return z.reshape(*lead, *rows, *columns), batch + left + right
