"""Functions of WGSL that kernels call: each is written into a kernel that names it."""

from __future__ import annotations

import functools
import re

CONVERSIONS = """
fn from_bits(b: u32) -> f32 { return bitcast<f32>(b); }
fn from_wide(b: u64) -> f64 { return bitcast<f64>(b); }
fn to_whole_f32(x: f32) -> i64 { if (!(x >= -9223372036854775808.0f && x < 9223372036854775808.0f)) { return -9223372036854775807li - 1li; } return i64(x); }
fn to_whole_f64(x: f64) -> i64 { if (!(x >= -9223372036854775808.0lf && x < 9223372036854775808.0lf)) { return -9223372036854775807li - 1li; } return i64(x); }
fn is_nan_f32(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
fn is_nan_f64(x: f64) -> bool { return (bitcast<u64>(x) & 0x7ffffffffffffffflu) > 0x7ff0000000000000lu; }
fn is_finite_f32(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u; }
fn is_finite_f64(x: f64) -> bool { return (bitcast<u64>(x) & 0x7ff0000000000000lu) != 0x7ff0000000000000lu; }
fn no_number_f32() -> f32 { return from_bits(0x7fc00000u); }
fn no_number_f64() -> f64 { return from_wide(0x7ff8000000000000lu); }
fn copysign_f32(x: f32, y: f32) -> f32 { return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(y) & 0x80000000u)); }
fn copysign_f64(x: f64, y: f64) -> f64 { return bitcast<f64>((bitcast<u64>(x) & 0x7ffffffffffffffflu) | (bitcast<u64>(y) & 0x8000000000000000lu)); }
fn half_to_f32(h: u32) -> f32 {
  let sign = (h & 0x8000u) << 16u; let exponent = (h >> 10u) & 31u; let rest = h & 1023u;
  if (exponent == 31u) { return bitcast<f32>(sign | 0x7f800000u | (rest << 13u)); }
  if (exponent == 0u) { return copysign_f32(f32(rest) * 5.9604644775390625e-8f, bitcast<f32>(sign)); }
  return bitcast<f32>(sign | ((exponent + 112u) << 23u) | (rest << 13u));
}
fn f32_to_half(x: f32) -> u32 {
  let b = bitcast<u32>(x); let sign = (b >> 16u) & 0x8000u; let a = b & 0x7fffffffu;
  if (a > 0x7f800000u) { return sign | 0x7e00u; }
  if (a >= 0x477ff000u) { return sign | 0x7c00u; }
  if (a < 0x38800000u) {
    let drop = 126u - (a >> 23u);
    if (drop > 24u) { return sign; }
    let m = (a & 0x7fffffu) | 0x800000u; let low = m & ((1u << drop) - 1u); let half = 1u << (drop - 1u); let kept = m >> drop;
    return sign | (kept + select(0u, 1u, low > half || (low == half && (kept & 1u) == 1u)));
  }
  return sign | ((a - 0x38000000u + 0xfffu + ((a >> 13u) & 1u)) >> 13u);
}
fn f32_to_f16(x: f32) -> f16 { return f16(x); }
fn brain_to_f32(h: u32) -> f32 { return bitcast<f32>(h << 16u); }
fn f32_to_brain(x: f32) -> u32 {
  let b = bitcast<u32>(x);
  if ((b & 0x7fffffffu) > 0x7f800000u) { return (b >> 16u) | 64u; }
  return (b + 0x7fffu + ((b >> 16u) & 1u)) >> 16u;
}
fn report(what: u32) { atomicStore(&flag[0u], what); }
fn place(x: i64, size: i32) -> i32 {
  if (x < 0li || x >= i64(size)) { report(OUT_OF_RANGE); }
  return i32(max(min(x, i64(size) - 1li), 0li));
}
fn high_product(a: u32, b: u32) -> u32 {
  let al = a & 0xffffu; let ah = a >> 16u; let bl = b & 0xffffu; let bh = b >> 16u;
  let low = al * bl; let m = ah * bl + (low >> 16u); let n = al * bh + (m & 0xffffu);
  return ah * bh + (m >> 16u) + (n >> 16u);
}
fn philox(seed: i64, offset: i64, at: i64) -> i64 {
  let s = bitcast<u64>(seed); let block = bitcast<u64>((at >> 2u) + offset);
  var k0 = u32(s & 0xfffffffflu); var k1 = u32(s >> 32u);
  var c0 = u32(block & 0xfffffffflu); var c1 = u32(block >> 32u); var c2 = 0u; var c3 = 0u;
  for (var round = 0; round < 10; round++) {
    let h0 = high_product(c0, 0xd2511f53u); let l0 = c0 * 0xd2511f53u;
    let h1 = high_product(c2, 0xcd9e8d57u); let l1 = c2 * 0xcd9e8d57u;
    c0 = h1 ^ c1 ^ k0; c1 = l1; c2 = h0 ^ c3 ^ k1; c3 = l0;
    k0 += 0x9e3779b9u; k1 += 0xbb67ae85u;
  }
  let which = at & 3li;
  return i64(u64(select(select(c0, c1, which == 1li), select(c2, c3, which == 3li), which > 1li)) & 0xfffffffflu);
}
fn hidden(x: f64) -> f64 { return bitcast<f64>(bitcast<u64>(x) ^ u64(words[0] >> 31u)); }
fn fused_f64(a: f64, b: f64, c: f64) -> f64 {
  let p = hidden(a * b);
  if (!(abs(p) < 1.0e300lf && abs(c) < 1.0e300lf)) { return p + c; }
  let ah = bitcast<f64>(bitcast<u64>(a) & 0xfffffffff8000000lu); let al = a - ah;
  let bh = bitcast<f64>(bitcast<u64>(b) & 0xfffffffff8000000lu); let bl = b - bh;
  let lost = hidden(hidden(hidden(ah * bh) - p) + (hidden(ah * bl) + hidden(al * bh))) + al * bl;
  let s = hidden(p + c); let part = hidden(s - p);
  return s + ((hidden(p - hidden(s - part)) + (c - part)) + lost);
}
fn power(x: f32, y: f32) -> f32 {
  let size = pow(abs(x), y); let odd = floor(y) == y && floor(y * 0.5f) != y * 0.5f;
  if (y == 0.0f) { return 1.0f; }
  if (x < 0.0f && floor(y) != y) { return from_bits(0x7fc00000u); }
  return select(size, -size, x < 0.0f && odd);
}
fn expm1(x: f32) -> f32 { return select(exp(x) - 1.0f, x * (1.0f + x * (0.5f + x * 0.16666667f)), abs(x) < 0.01f); }
"""

FLOATS = """
fn maximum_T(x: T, y: T) -> T { if (is_nan_T(x)) { return x; } return select(y, x, x > y); }
fn minimum_T(x: T, y: T) -> T { if (is_nan_T(x)) { return x; } return select(y, x, x < y); }
fn fmod_T(x: T, y: T) -> T {
  let b = abs(y); var r = abs(x);
  if (is_nan_T(x) || is_nan_T(y) || b == 0 || !is_finite_T(r)) { return no_number_T(); }
  if (!is_finite_T(b)) { return x; }
  var t = b;
  while (t <= r * 0.5) { t = t * 2; }
  loop {
    if (r >= t) { r = r - t; }
    if (t == b) { break; }
    t = t * 0.5;
  }
  return copysign_T(r, x);
}
fn remainder_T(x: T, y: T) -> T {
  let r = fmod_T(x, y);
  return select(r, r + y, !(r == 0) && ((r < 0) != (y < 0)));
}
fn floor_divide_T(x: T, y: T) -> T { if (y == 0) { return x / y; } return round((x - remainder_T(x, y)) / y); }
"""

WHOLES = """
fn remainder_T(x: T, y: T) -> T {
  if (y == 0 || y == -1) { return T(0); }
  let r = x % y;
  return select(r, r + y, r != 0 && ((r < 0) != (y < 0)));
}
fn floor_divide_T(x: T, y: T) -> T {
  if (y == 0) { return T(0); }
  if (y == -1) { return T(0) - x; }
  let q = x / y;
  return select(q, q - 1, q * y != x && ((x < 0) != (y < 0)));
}
fn fmod_T(x: T, y: T) -> T { if (y == 0 || y == -1) { return T(0); } return x % y; }
fn divisor_T(x: T) -> T { if (x == 0) { report(DIVIDED_BY_ZERO); return T(1); } return x; }
"""

UNSIGNED = """
fn remainder_T(x: T, y: T) -> T { if (y == 0) { return T(0); } return x % y; }
fn floor_divide_T(x: T, y: T) -> T { if (y == 0) { return T(0); } return x / y; }
fn fmod_T(x: T, y: T) -> T { if (y == 0) { return T(0); } return x % y; }
fn divisor_T(x: T) -> T { if (x == 0) { report(DIVIDED_BY_ZERO); return T(1); } return x; }
"""


def typed(text: str, kind: str) -> str:
    """A family's functions for one type: numbers among their operands take its literals."""
    suffix = {"f32": "f", "f64": "lf", "i32": "i", "i64": "li", "u32": "u"}[kind]
    text = re.sub(r"(?<![\w.])(-?)(\d+(?:\.\d+)?)(?![\w.])", lambda m: f"{m[1]}{m[2]}{suffix}", text)
    return re.sub(r"\bT\b", kind, text.replace("_T", f"_{kind}"))


@functools.cache
def library() -> dict:
    """{name: text} of all functions."""
    text = (
        CONVERSIONS
        + "".join(typed(FLOATS, kind) for kind in ("f32", "f64"))
        + "".join(typed(WHOLES, kind) for kind in ("i32", "i64"))
        + typed(UNSIGNED, "u32")
    )
    parts = re.split(r"(?m)^(?=fn )", text)
    return {re.match(r"fn (\w+)", part)[1]: part for part in parts if part.startswith("fn ")}


def called_in(text: str) -> str:
    """The functions that a text names, with those that they name."""
    found, waiting = {}, [text]
    while waiting:
        for name in re.findall(r"\b(\w+)\(", waiting.pop()):
            if name in library() and name not in found:
                found[name] = library()[name]
                waiting.append(found[name])
    return "".join(found[name] for name in library() if name in found)
