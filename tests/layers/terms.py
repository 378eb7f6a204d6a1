# dialect: skip-file - the words themselves
"""Words that the glossary (``docs/glossary.md``) replaces by standard terms, as patterns."""
from __future__ import annotations

from typing import NamedTuple


class Term(NamedTuple):
    """A row: ``pattern`` is wrong unless ``unless`` matches around it (20 characters on either side) or the path
    matches ``skip``; with ``only``, in paths that match it alone."""

    name: str
    pattern: str
    say: str  # the standard term
    unless: str = ""
    only: str = ""
    skip: str = ""


DISTRIBUTED = r"distributed|sharding|docs/scale|c10d|elastic"
TERMS = [
    # --- numbers and dtypes
    Term("integer", r"\bwhole (numbers?|ones|float32s?|floats?)\b", "integer; integral float",
         r"whole numbers? of (tiles|vectors|rows|blocks|steps|times|lines|pages|panels|chunks|warps)"),
    Term("float8", r"\bfloats? of (a|one|8) (byte|bits)\b|\bfloats? of one or two bytes\b|\bbyte floats?\b",
         "float8"),
    Term("bfloat16", r"\bbfloats?\b", "bfloat16"),
    Term("float16",
         r"\b(to|as|of|in|for|into|with|between|from) halves\b(?! of)|\bhalves (compute|as their|are rounded|have)\b"
         r"|\brounded to a half\b|\bhalf or bfloat\b|\bnumbers of two halves\b",
         "float16, bfloat16 (or: 16-bit floats)", r"two halves|in halves|both halves"),
    Term("int4", r"\b(weights?|numbers?|codes?) of four bits\b|\bfour-bit\b|\bnibbles?\b", "int4"),
    Term("double-double", r"\bsums of two doubles\b", "double-double"),
    Term("stored-values", r"\bnumbers in memory\b", "stored values (storage elements)"),
    Term("uninitialized", r"\b(without|undefined) contents?\b", "uninitialized"),
    Term("cumulative", r"\brunning (sums?|products?|extremes?|maxim\w+|minim\w+|softmax|counts?)\b",
         "cumulative sum/max (scan); online softmax"),
    Term("sort", r"\b(puts?|putting) (rows|elements|them) in order\b|\brows in order\b", "sort",
         r"in order of"),
    Term("logsumexp", r"\blogarithms? of (the )?totals?\b", "logsumexp"),
    # --- matrix multiplication, caches, layout
    Term("matmul",
         r"(?<!dot )(?<!dot-)(?<!inner )(?<!outer )(?<!cross )(?<!tensor )(?<!kronecker )(?<!cartesian )"
         r"\b(matrix products?|products|product of matrices)\b",
         "matrix multiplication (matmul, GEMM)",
         r"dot products|sums?(,| and| or|,? differences and) products|products (and|or|,) (sums|extremes|means)"
         r"|cumulative|running (sums|products)|sums of products|kronecker"
         r"|products of (sizes|strides|primes|all|two|three)"
         r"|sum of products|gamma|weights? times|exponent|cotangent",
         skip=r"distributions/|einsum|docs/zoo"),
    Term("l1-l2-cache", r"\b(first|second|third|last)(-level)? caches?\b", "L1/L2 cache"),
    Term("contiguous",
         r"\bneighbours (along|in memory)\b|\b(are|is|be|lie as|as|no) neighbours\b"
         r"|\bneighbouring (columns|rows|channels|pixels|memory|words|elements|numbers|lanes|outputs|keys|k)\b"
         r"|\bneighbouring transforms\b",
         "contiguous (unit stride); adjacent"),
    Term("interleaved", r"\bside by side\b", "adjacent, concatenated, interleaved, or concurrently"),
    Term("back-to-back", r"\bend to end\b", "concatenated (packed, jagged)"),
    Term("turned",
         r"\b(matrix|matrices|tensors?|products?|words|quads|image|images|tiles?|sums|weights|triangle|view|views) "
         r"(is |are |was |were )?turned\b|\bturned (matri|product|quad|word|image|view|tensor|round|on their way)\w*",
         "transposed, rotated, or with the conj/neg bit", r"turned (into|on|off)\b"),
    Term("materialize", r"\b(written|writes?|writing|wrote) (\w+ ){0,3}down\b",
         "traced or recorded (a call); materialized (a tensor)"),
    Term("dear", r"\bdear(er)? to\b", "expensive to recompute"),
    # --- compiler
    Term("room",
         r"\b(a|the|this|that|each|another|other|every|no|which|all|two|several|own|upper|lower) rooms?\b"
         r"|\brooms\b|\broom above\b", "package (module)",
         r"room (for|to|left|is left|counts|of both)"
         r"|(makes?|leaves?|has|have|is|take|enough|no) (no |the )?room\b(?! of)"),
    Term("repeated-subgraph", r"\bstretch(es)?\b", "repeated subgraph (layer)",
         skip=r"torchvision|docs/zoo|distributions/"),
    Term("shape-generic", r"\boutlines?\b|\boutlined\b", "shape-generic program", skip=r"torchvision"),
    Term("landmark", r"\blandmarks?\b", "template call"),
    Term("blocking-parameters", r"\bhabits?\b", "blocking parameters; private optimizer names"),
    Term("fake-tensor", r"\b(tensors?|values?|arrays?|device) without data\b", "fake tensor, meta device"),
    Term("data-dependent",
         r"\b(that|which|only|what) data (decide|tell|choose)s?\b|\bdata (decide|tell)s?\b|\bdecided by data\b",
         "data-dependent (unbacked)"),
    Term("backend-interface", r"\bseam\b", "device interface"),
    Term("device-board", r"\bboards?\b", "device (GPU, adapter)", only=r"devices/|docs/(gpu|devices)"),
    Term("encoded-program", r"\bwords of (a|the|its) (program|launch)(es)?\b|\bwords that run\b"
         r"|\bwords of launches\b|\bwords mean\b", "encoded program (int64 words)"),
    Term("numpy-reference", r"\bNumPy meaning\b", "NumPy reference implementation"),
    Term("cycle", r"\bin (a )?circles?\b|\bcircles? of\b|\bimport circles?\b", "cycle",
         skip=r"torchvision|webgpu/templates/fourier"),
    Term("double-backward", r"\bgradients? of (a |the )?gradients?\b",
         "double backward, higher-order gradient"),
    Term("rng-offset", r"\bplaces? (further on )?in the (random )?stream\b", "offset in the RNG stream"),
    Term("custom", r"(?<!this )(?<!each )\b(of )?one's own\b", "custom, user-defined"),
    Term("vendor", r"\bprocessor's maker\b|\bmakers? of GPUs\b|\(maker\b", "vendor"),
    Term("fix", r"\bmend(s|ed|ing)?\b", "fix"),
    Term("strings", r"\btexts\b", "strings, source text, messages", r"texts (of \d|have one length)"),
    Term("runtime-scalar", r"\brun-time numbers?\b|\bnumbers that vary\b", "run-time scalar, dynamic scalar"),
    Term("dynamic-shape", r"\bsizes? that (vary|varies)\b|\bsizes? (vary|varies)\b", "dynamic shape (size)"),
    Term("settle", r"\bsettl(e|es|ed|ing)\b", "substitute sizes; wait for; resolve"),
    Term("autotuned", r"\bmachines? (has |have )?learn(s|ed)?\b|\blearned choices\b|\bhas learned\b",
         "per-machine autotuning results"),
    Term("helpers", r"\bsmall functions\b", "helper functions"),
    # --- distributed
    Term("collective", r"\bexchanges?\b(?! (rows|columns|the last two))", "collective, communication, message",
         r"row exchanges", only=DISTRIBUTED),
    Term("device-mesh", r"\bgrids?\b", "device mesh", only=DISTRIBUTED),
    Term("microbatch", r"\bsmall (batch(es)?|ones)\b", "microbatch", only=r"pipelining|sharding|docs/scale"),
    Term("host", r"\bmachines?\b", "host, node", r"machine code|state machine|virtual machine",
         only=DISTRIBUTED),
    Term("rendezvous", r"\bmeetings?\b", "rendezvous", only=r"elastic|rendezvous|docs/distributed"),
]
