"""Text: formatting, f-strings, string methods, numbers and conversions."""
from .table import case


@case()
def f_strings(x):
    n, f, s = 3, 3.14159, "q"
    return f"{n} {f:.2f} {s!r:>5} {n:03d} {x.shape[0]} {n + 1=} {{}}", x


@case()
def f_string_nested_spec(x):
    width, digits = 8, 2
    return f"{3.14159:{width}.{digits}f}", f"{'a':^{width}}", x


@case()
def f_string_of_containers(x):
    return f"{[1, 'a']} { {'k': 1} } {(1,)} {None} {True}", f"{x.shape} {x.dtype}", x


@case()
def format_method(x):
    return "{} {b} {0} {c[0]} {d.real}".format(1, b=2, c=[3], d=4), "{:>4}|{:<4}".format("a", "b"), x


@case()
def percent(x):
    return "%d %s %.1f" % (1, "a", 2.55), "%(k)s" % {"k": 5}, "%r" % "q", x


@case()
def methods_of_strings(x):
    s = " Hello World "
    return s.strip(), s.lower(), s.upper(), s.split(), s.replace("l", "L"), s.find("W"), s.count("l"), s.startswith(
        " H"), s.endswith("x"), s.title(), \
        s.partition("o"), "a-b".rsplit("-", 1), "abc".index("c"), "x".join("abc"), "7".zfill(
            3), "ab".isalpha(), "a\nb".splitlines(), s.swapcase(), "abc".removeprefix("a"), x


@case()
def string_operators(x):
    s = "abc"
    return s + "d", s * 2, s[1], s[::-1], "b" in s, s < "abd", len(s), s == "abc", min(s), [*s], x


@case()
def string_loop(x):
    out = ""
    for c in "abc":
        out += c.upper()
    return out, x


@case()
def string_iteration_with_dict(x):
    counts = {}
    for c in "hello":
        counts[c] = counts.get(c, 0) + 1
    return counts, sorted(counts.items(), key=lambda kv: (-kv[1], kv[0])), x


@case()
def conversions(x):
    return int("12"), int(3.9), float("1.5"), str(1.5), bool(""), int("ff", 16), complex(1, 2), chr(97), ord("b"), hex(
        255), bin(5), list("ab"), tuple("ab"), x


@case()
def representation(x):
    return repr("a'b"), repr([1, "x", None]), str((1,)), repr({"a": {1}}), ascii("é"), x


@case()
def integer_arithmetic(x):
    return 7 // 2, -7 // 2, 7 % -3, 2 ** 10, 1 << 4, 255 >> 2, 6 & 3, 6 | 1, 6 ^ 2, ~5, (5).bit_length(), 10 ** 20, x


@case()
def float_arithmetic(x):
    return 7 / 2, 0.1 + 0.2, 1e300 * 1e10, (2.5).is_integer(), float("inf") > 1, -0.0, (0.5).as_integer_ratio(), x


@case()
def complex_arithmetic(x):
    z = 1 + 2j
    return z * z, z.real, z.conjugate(), abs(3 + 4j), x


@case()
def augmented_assignment(x):
    n = 10
    n += 1
    n -= 2
    n *= 3
    n //= 2
    n %= 8
    n **= 2
    n <<= 1
    n |= 1
    n &= 63
    n ^= 2
    n >>= 1
    return n, x


@case()
def number_of_size(x):
    n = x.shape[0]
    return x * n, x / n, n / 2, n // 3, n % 3, n ** 2, -n, n > 2, float(n), str(n), f"{n}", n == 4, round(
        n / 3, 2), x.view(n // 2, -1)


@case()
def numbers_of_arguments(x, *numbers):
    return x, numbers


@case()
def bool_arithmetic(x):
    return True + True, sum([True, False]), True & False, True ^ True, x * True, int(x.dim() == 1)


@case(given=lambda: ("add", 3, 2.5, True, None))
def scalar_arguments(x, name, n, f, flag, nothing):
    return getattr(x, name)(n), x * f, flag and nothing is None, n * f
