"""Numbers of memory as words of WGSL: those that are parts of words, and those that several threads update."""

from __future__ import annotations

# bits of numbers that are parts of words
NARROW = {"bool": 8, "uint8": 8, "int8": 8, "int16": 16, "float16": 16, "bfloat16": 16}

STORE = """fn store_b{k}(at: i32, value: u32) {{
  let shift = u32(at % {per}) * {bits}u; let place = at / {per};
  var old = atomicLoad(&b{k}[place]);
  loop {{
    let made = atomicCompareExchangeWeak(&b{k}[place], old, (old & ~({mask}u << shift)) | (value << shift));
    if (made.exchanged) {{ break; }}
    old = made.old_value;
  }}
}}"""


UPDATE = """fn {combine}_b{k}(at: i32, value: {kind}) {{
  let shift = u32(at % {per}) * {bits}u; let place = at / {per};
  var old = atomicLoad(&b{k}[place]);
  loop {{
    let raw = (old >> shift) & {mask}u;
    let before = {before};
    let after = {after};
    let made = atomicCompareExchangeWeak(&b{k}[place], old, (old & ~({mask}u << shift)) | (({stored}) << shift));
    if (made.exchanged) {{ break; }}
    old = made.old_value;
  }}
}}"""
# words of memory as numbers, and numbers as such words
READ = {"bool": "({} != 0u)", "uint8": "{}", "int8": "((i32({}) << 24u) >> 24u)", "int16": "((i32({}) << 16u) >> 16u)",
        "float16": "half_to_f32({})", "bfloat16": "brain_to_f32({})", "float32": "bitcast<f32>({})",
        "int32": "bitcast<i32>({})"}
STORED = {"bool": "select(0u, 1u, {})", "uint8": "({}) & 255u", "int8": "u32({}) & 255u", "int16": "u32({}) & 65535u",
          "float16": "f32_to_half({})", "bfloat16": "f32_to_brain({})", "float32": "bitcast<u32>({})",
          "int32": "bitcast<u32>({})"}
