"""A stand-in for NVIDIA's ``libcublasLt.so``: a shared object that our own code generator and linker make.

It keeps descriptors as the documentation of the library describes them, and refuses what that refuses: attributes of
another size, descriptors of another kind, shapes that do not fit, types that are not computed, int8 matmuls whose
operands have other strides than they must, algorithms that were found for other matmuls or for better aligned
addresses, and too little workspace.  A product is a launch of the kernel "cublasLtMatmul" of the stand-in for the
driver, so that it has the order of its stream, and goes into graphs; ``blas_numpy.py`` computes it.
"""
from __future__ import annotations

from rushlight._src.devices.cpu.llvm import jit
from rushlight._src.devices.cpu.llvm.builder import Module
from rushlight._src.devices.cpu.llvm.types import i8, i32, i64, ptr
from rushlight._src.devices.cpu.llvm.values import Value, constant
from rushlight._src.packages.objects import SharedObject

from .stub import Entry

# words of the state
LAUNCH, FUNCTION, PRODUCTS, SEARCHES, NONE, VERSION, REFUSED = range(7)
WORDS = 16
OPERATION, LAYOUT, PREFERENCE, ALGORITHM, HANDLE = range(0x0B1A5001, 0x0B1A5006)  # first words of what there is
TYPE, ROWS, COLUMNS, LEADING, BATCH, STRIDE = range(1, 7)  # of a layout, after its kind
COMPUTE, SCALE, VALUES = 1, 2, 3  # of an operation; then its attributes by number
INVALID, UNSUPPORTED = 7, 15
FAILED = 13
# bytes of attributes by number, as the documentation has them
OPERATIONS = {0: 4, 1: 4, 2: 4, 3: 4, 4: 4, 5: 4, 6: 4, 7: 4, 8: 8, 10: 8, 11: 8, 12: 8, 13: 8, 14: 8, 15: 4, 17: 8,
              18: 8, 19: 8, 20: 8, 21: 8, 22: 4, 23: 8, 24: 8, 25: 1, 26: 4, 31: 4, 32: 4,
              33: 4, 34: 4, 35: 4, 36: 8, 37: 4}
LAYOUTS = {0: 4, 1: 4, 2: 8, 3: 8, 4: 8, 5: 4, 6: 8, 7: 8}
PREFERENCES = {0: 4, 1: 8, 3: 4, 5: 4, 6: 4, 7: 4, 8: 4, 9: 4, 12: 8}
LAYOUT_WORDS = {0: TYPE, 2: ROWS, 3: COLUMNS, 4: LEADING, 5: BATCH, 6: STRIDE}
F32, F64, F16, I8, I32, BF16, E4M3, E5M2 = 0, 1, 2, 3, 10, 14, 28, 29
C16, C32, C32_TF32, C64, CI32 = 64, 68, 77, 70, 72
# compute, scale, a, b, d
TYPES = [(C16, F16, F16, F16, F16), (C32, F32, F16, F16, F16), (C32, F32, F16, F16, F32), (C32, F32, BF16, BF16, BF16),
         (C32, F32, BF16, BF16, F32), (C32, F32, F32, F32, F32), (C32_TF32, F32, F32, F32, F32),
         (C64, F64, F64, F64, F64), (CI32, I32, I8, I8, I32), (C32, F32, I8, I8, F32),
         *((C32, F32, a, b, d) for a in (E4M3, E5M2) for b in (E4M3, E5M2) for d in (BF16, F16, F32)
           if (a, b) != (E5M2, E5M2))]
EPILOGUES = 1, 2, 4, 6, 32, 36, 130, 134, 160, 164
WIDTHS = {F32: 4, F64: 8, F16: 2, BF16: 2, I8: 1, I32: 4, E4M3: 1, E5M2: 1}
TRANSPOSED, RIGHT, EPILOGUE, BIAS, AUX, AUX_LEADING, AUX_STRIDE = 3, 4, 7, 8, 11, 12, 13
SCALE_A, SCALE_B, FAST, BIAS_TYPE, MODE_A, MODE_B = 17, 18, 25, 26, 31, 32
ENTRIES = (("cublasLtCreate", "p"), ("cublasLtMatmulDescCreate", "pii"), ("cublasLtMatmulDescSetAttribute", "pipz"),
           ("cublasLtMatrixLayoutCreate", "pizzz"), ("cublasLtMatrixLayoutSetAttribute", "pipz"),
           ("cublasLtMatmulPreferenceCreate", "p"), ("cublasLtMatmulPreferenceSetAttribute", "pipz"),
           ("cublasLtMatmulPreferenceDestroy", "p"), ("cublasLtMatmulAlgoGetHeuristic", "pppppppipp"),
           ("cublasLtMatmul", "p" * 14 + "zp"))
NAMES = [name for name, _ in ENTRIES]
PASSED = ("m", "n", "k", "batch", "a_type", "b_type", "d_type", "a_turned", "b_turned", "a_leading", "a_stride",
          "b_leading", "b_stride", "c_leading", "c_stride", "d_leading", "d_stride", "compute", "epilogue", "a", "b",
          "c", "d", "alpha", "beta", "bias", "bias_type", "aux", "aux_leading", "aux_stride", "scale_a", "scale_b",
          "mode_a", "mode_b", "fast", "scale_type", "algorithm")  # arguments of the kernel, in order
ROOMS = 512, 64, 0  # bytes of workspace that the algorithms take, the likely fastest first


def same(e, value, number):
    return e.f.compare("==", value, number)


def listed(e, value, numbers):
    """Whether a value is one of some numbers."""
    found = same(e, value, -1 << 62)
    for number in numbers:
        found = e.f.or_(found, same(e, value, number))
    return found


def number_at(e, address, size: int):
    """Load the integer that has the given number of bytes."""
    kind = {1: i8, 4: i32}.get(size)
    return e.get(address) if kind is None else e.f.cast("sext", e.f.load(kind, e.place(address), 1), i64)


def kept(e, sizes: dict, attribute, source, size, put):
    """Keeps the value of an attribute whose size is right."""
    e.stop(e.zero(source), INVALID)
    e.stop(e.f.xor(listed(e, attribute, sizes), True), INVALID)
    for number, wanted in sizes.items():
        here = same(e, attribute, number)
        e.stop(e.f.and_(here, e.f.compare("!=", size, wanted)), INVALID)
        e.f.when(here, lambda number=number, wanted=wanted: put(number, number_at(e, source, wanted)))


def kind_is(e, place, kind):
    """Refuses what is nothing, or something else."""
    e.stop(e.zero(place), INVALID)
    e.stop(e.f.compare("!=", e.get(place), kind), INVALID)


def value_of(e, operation, number):
    return e.get(operation, VALUES + number)


def stopping(e, condition, status):
    """Within a helper: gives a status where a condition holds."""
    then, on = e.f.new_block("refused"), e.f.new_block("on")
    e.f.branch_if(condition, then, on)
    e.f.at(then)
    e.f.ret(constant(i64, status))
    e.f.at(on)


def validated(module: Module):
    """validate(operation, a, b, c, d): the status of a product with these descriptors."""
    e = Entry(module, "validate", "ppppp", i64, True)
    operation, a, b, c, d = e.given
    stop = lambda condition, status: stopping(e, condition, status)  # noqa: E731
    for place, kind in ((operation, OPERATION), (a, LAYOUT), (b, LAYOUT), (c, LAYOUT), (d, LAYOUT)):
        stop(e.zero(place), INVALID)
        stop(e.f.compare("!=", e.get(place), kind), INVALID)
    left, right = (e.some(value_of(e, operation, number)) for number in (TRANSPOSED, RIGHT))
    m, k = (e.f.select(left, e.get(a, one), e.get(a, other)) for one, other in ((COLUMNS, ROWS), (ROWS, COLUMNS)))
    depth, n = (e.f.select(right, e.get(b, one), e.get(b, other)) for one, other in ((COLUMNS, ROWS), (ROWS, COLUMNS)))
    for one, other in ((k, depth), (m, e.get(d, ROWS)), (n, e.get(d, COLUMNS)), (m, e.get(c, ROWS)),
                       (n, e.get(c, COLUMNS)), (e.get(c, TYPE), e.get(d, TYPE))):
        stop(e.f.compare("!=", one, other), INVALID)
    for place in (a, b, c, d):
        stop(e.f.compare("<", e.get(place, LEADING), e.get(place, ROWS)), INVALID)
        stop(e.f.compare("!=", e.get(place, BATCH), e.get(d, BATCH)), INVALID)
    found = same(e, m, -1)
    given = (e.get(operation, COMPUTE), e.get(operation, SCALE), e.get(a, TYPE), e.get(b, TYPE), e.get(d, TYPE))
    for row in TYPES:
        here = same(e, m, m)
        for value, number in zip(given, row):
            here = e.f.and_(here, same(e, value, number))
        found = e.f.or_(found, here)
    stop(e.f.xor(found, True), UNSUPPORTED)
    bytes_of = listed(e, e.get(a, TYPE), (I8, E4M3, E5M2))
    lies = e.f.and_(left, e.f.xor(right, True))
    stop(e.f.and_(bytes_of, e.f.xor(lies, True)), UNSUPPORTED)
    floats = listed(e, e.get(a, TYPE), (E4M3, E5M2))
    step = e.f.select(floats, constant(i64, 16), constant(i64, 4))
    for place in (a, b):
        stop(e.f.and_(bytes_of, e.some(e.f.and_(e.get(place, LEADING), e.f.sub(step, 1)))), UNSUPPORTED)
    epilogue = value_of(e, operation, EPILOGUE)
    stop(e.f.xor(listed(e, epilogue, EPILOGUES), True), INVALID)
    plain = same(e, epilogue, 1)
    stop(e.f.and_(same(e, e.get(operation, COMPUTE), CI32), e.f.xor(plain, True)), UNSUPPORTED)
    stop(e.f.and_(e.some(e.f.and_(epilogue, 4)), e.zero(value_of(e, operation, BIAS))), INVALID)
    beside = e.some(e.f.and_(epilogue, 128))
    stop(e.f.and_(beside, e.zero(value_of(e, operation, AUX))), INVALID)
    leading = value_of(e, operation, AUX_LEADING)
    stop(e.f.and_(beside, e.f.compare("<", leading, m)), INVALID)
    stop(e.f.and_(beside, e.some(e.f.and_(leading, 7))), UNSUPPORTED)
    for number in (SCALE_A, SCALE_B):
        stop(e.f.and_(e.some(value_of(e, operation, number)), e.f.xor(floats, True)), UNSUPPORTED)
    stop(e.f.compare("!=", value_of(e, operation, MODE_A), value_of(e, operation, MODE_B)), UNSUPPORTED)
    stop(e.f.xor(listed(e, value_of(e, operation, MODE_A), (0, 3)), True), UNSUPPORTED)
    e.f.ret(constant(i64, 0))


WRITERS = {}


def writes(name: str):
    def enter(function):
        WRITERS["cublasLt" + name] = function
        return function
    return enter


@writes("Create")
def create(e, out):
    e.stop(e.some(e.field(NONE)), 1)  # tests have it fail, as where there is no device
    made = e.made(1)
    e.put(HANDLE, made)
    e.put(made, out)


@writes("MatmulDescCreate")
def operation_new(e, out, compute, scale):
    made = e.made(VALUES + 40)
    for word, value in ((0, OPERATION), (COMPUTE, compute), (SCALE, scale), (VALUES + EPILOGUE, 1),
                        (VALUES + BIAS_TYPE, -1)):
        e.put(value, made, word)
    e.put(made, out)


@writes("MatmulDescSetAttribute")
def operation_set(e, place, attribute, source, size):
    kind_is(e, place, OPERATION)
    kept(e, OPERATIONS, attribute, source, size, lambda number, value: e.put(value, place, VALUES + number))


@writes("MatrixLayoutCreate")
def layout_new(e, out, kind, rows, columns, leading):
    made = e.made(STRIDE + 1)
    for word, value in enumerate((LAYOUT, kind, rows, columns, leading, 1)):
        e.put(value, made, word)
    e.put(made, out)


@writes("MatrixLayoutSetAttribute")
def layout_set(e, place, attribute, source, size):
    kind_is(e, place, LAYOUT)
    kept(e, LAYOUTS, attribute, source, size, lambda number, value: e.put(value, place, LAYOUT_WORDS[number])
         if number in LAYOUT_WORDS else None)


@writes("MatmulPreferenceCreate")
def preference_new(e, out):
    made = e.made(16)
    e.put(PREFERENCE, made)
    for number, value in ((3, 7), (5, 256), (6, 256), (7, 256), (8, 256)):
        e.put(value, made, 1 + number)
    e.put(made, out)


@writes("MatmulPreferenceSetAttribute")
def preference_set(e, place, attribute, source, size):
    kind_is(e, place, PREFERENCE)
    kept(e, PREFERENCES, attribute, source, size, lambda number, value: e.put(value, place, 1 + number))


@writes("MatmulPreferenceDestroy")
def preference_free(e, place):
    kind_is(e, place, PREFERENCE)
    e.freed(place)


@writes("MatmulAlgoGetHeuristic")
def search(e, handle, operation, a, b, c, d, preference, most, results, count):
    kind_is(e, handle, HANDLE)
    kind_is(e, preference, PREFERENCE)
    e.put_int(0, count)
    e.count(SEARCHES)
    e.stop(e.f.compare("<", most, 1), INVALID)
    status = e.run("validate", operation, a, b, c, d)
    e.stop(e.some(status), status)
    room, aligned = e.get(preference, 2), [e.get(preference, 1 + number) for number in (5, 6, 7, 8)]
    bytes_of = listed(e, e.get(a, TYPE), (I8, E4M3, E5M2))
    least = e.f.select(bytes_of, e.f.select(same(e, e.get(a, TYPE), I8), constant(i64, 4), constant(i64, 16)),
                       constant(i64, 1))
    for one in aligned[:2]:
        e.stop(e.f.compare("<", one, least), UNSUPPORTED)
    found = constant(i64, 0)
    for rank, wanted in enumerate(ROOMS):
        fits = e.f.and_(e.f.compare("<=", wanted, room), e.f.compare("<", rank, most))

        def proposed(rank=rank, wanted=wanted, found=found):
            at = e.f.add(results, e.f.mul(found, 96))
            for word, value in enumerate((ALGORITHM, rank, wanted, *aligned, e.get(preference, 4))):
                e.put(value, at, word)
            e.put(wanted, at, 8)
            e.put(0x3F800000 << 32, at, 9)  # status 0, one wave
            return [e.f.add(found, 1)]

        found, = e.f.when(fits, proposed, lambda found=found: [found])
    e.put_int(found, count)
    e.stop(e.zero(found), UNSUPPORTED)


def aligned_to(e, address, known):
    """Refuses an address that is not as well aligned as an algorithm was promised."""
    e.stop(e.some(e.f.and_(address, e.f.sub(known, 1))), INVALID)


@writes("Matmul")
def multiply(e, handle, operation, alpha, a, of_a, b, of_b, beta, c, of_c, d, of_d, algorithm, workspace, size, stream):
    e.stop(e.some(e.field(REFUSED)), e.field(REFUSED))  # tests have it fail
    kind_is(e, handle, HANDLE)
    status = e.run("validate", operation, of_a, of_b, of_c, of_d)
    e.stop(e.some(status), status)
    for place in (alpha, beta, a, b, d, algorithm):
        e.stop(e.zero(place), INVALID)
    kind_is(e, algorithm, ALGORITHM)
    e.stop(e.f.compare("<", size, e.get(algorithm, 2)), INVALID)
    e.stop(e.f.and_(e.zero(workspace), e.some(e.get(algorithm, 2))), INVALID)
    for word, address in enumerate((a, b, c, d), 3):
        aligned_to(e, address, e.get(algorithm, word))
    wide = same(e, e.get(operation, SCALE), F64)
    factors = [e.f.select(wide, e.get(place), e.f.cast("zext", e.f.load(i32, e.place(place), 1), i64))
               for place in (alpha, beta)]
    left = e.some(value_of(e, operation, TRANSPOSED))
    k = e.f.select(left, e.get(of_a, ROWS), e.get(of_a, COLUMNS))
    known = {"m": e.get(of_d, ROWS), "n": e.get(of_d, COLUMNS), "k": k, "batch": e.get(of_d, BATCH), "a": a, "b": b,
             "c": c, "d": d, "a_turned": value_of(e, operation, TRANSPOSED), "b_turned": value_of(e, operation, RIGHT),
             "compute": e.get(operation, COMPUTE), "scale_type": e.get(operation, SCALE), "alpha": factors[0],
             "beta": factors[1], "epilogue": value_of(e, operation, EPILOGUE), "algorithm": e.get(algorithm, 1)}
    for name, number in (("bias", BIAS), ("bias_type", BIAS_TYPE), ("aux", AUX), ("aux_leading", AUX_LEADING),
                         ("aux_stride", AUX_STRIDE), ("scale_a", SCALE_A), ("scale_b", SCALE_B), ("mode_a", MODE_A),
                         ("mode_b", MODE_B), ("fast", FAST)):
        known[name] = value_of(e, operation, number)
    for name, place in (("a", of_a), ("b", of_b), ("c", of_c), ("d", of_d)):
        known |= {f"{name}_type": e.get(place, TYPE), f"{name}_leading": e.get(place, LEADING),
                  f"{name}_stride": e.get(place, STRIDE)}
    values = e.made(2 * len(PASSED))
    for number, name in enumerate(PASSED):
        e.put(known[name], values, number)
        e.put(e.f.add(values, 8 * number), values, len(PASSED) + number)
    e.count(PRODUCTS)
    one = constant(i32, 1)
    got = e.f.call_pointer(e.place(e.field(LAUNCH)), [
        e.place(e.field(FUNCTION)), one, one, one, one, one, one, constant(i32, 0), e.place(stream),
        e.place(e.f.add(values, 8 * len(PASSED))), constant(ptr, 0)], i32)
    e.freed(values)
    e.stop(e.f.compare("!=", got, constant(i32, 0)), FAILED)


def text() -> str:
    """The library as IR."""
    module = Module()
    module.data("state", f"[{WORDS} x i64]")
    validated(module)
    f = module.function("stub_state", [], ptr)
    f.ret(Value("@state", ptr))
    f = module.function("cublasLtGetVersion", [], i64)
    f.ret(f.load(i64, f.offset(Value("@state", ptr), VERSION, i64)))
    for name, kinds in ENTRIES:
        e = Entry(module, name, kinds)
        status = WRITERS[name](e, *e.given)
        e.f.ret(constant(i32, 0) if status is None else e.f.cast("trunc", status, i32))
    return module.text()


def image() -> bytes:
    """The file."""
    made = SharedObject()
    made.add_object(jit.compile_object(text()))
    return made.image((*NAMES, "cublasLtGetVersion", "stub_state"), "libcublasLt-stand-in.so.12")
