"""TorchScript files that are hostile: none runs anything but the language, ends the process, or fills memory."""
import io
import pickle
import zipfile

import pytest

import rushlight as rl
from rushlight.jit.foreign_code import CodeError

HEAD = "class M(Module):\n  __parameters__ = []\n"
NAMED = "class N(NamedTuple):\n  f : int\n  g : int\n"
NEW = b"\x80\x02c__torch__\nM\n)\x81"


def archive(code, state=b"}b", kind=zipfile.ZIP_DEFLATED, **more) -> io.BytesIO:
    """A file of this code, with a module of the class M."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as made:
        for name, text in {"data.pkl": NEW + state + b".", "constants.pkl": b"\x80\x02).", "version": b"3\n",
                           "byteorder": b"little", "code/__torch__.py": code, **more}.items():
            made.writestr(f"a/{name}", text)
    file.seek(0)
    return file


def run(body, *args, before="", state=b"}b"):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    code = before + HEAD + "  def forward(self: __torch__.M, x: Tensor) -> Tensor:\n" + lines
    return rl.jit.load(archive(code, state))(*args)


@pytest.fixture
def library():
    made = rl.library.Library("script_doors", "DEF")
    made.define("f(Tensor x) -> Tensor")
    made.impl("f", lambda x: x * 2, "CompositeExplicitAutograd")
    assert rl.ops.script_doors.f is not None
    yield made
    made._destroy()


@pytest.mark.parametrize("call", [
    "__init__('aten')", "__setattr__('f', 'poisoned')", "__getattribute__('__dict__')", "__class__('evil')",
    "__reduce_ex__(0)", "find('f')", "packet('f', 1)", "packets", "name", "_f()"])
def test_only_registered_operators_of_a_library_are_called(library, call):
    x = rl.tensor([1, 2])
    assert run("return ops.script_doors.f(x)", x).tolist() == [2, 4]
    with pytest.raises(RuntimeError, match="script_doors::\\w+, which is not registered|a call of|is not known"):
        run(f"return ops.script_doors.{call}{'' if '(' in call else '()'}", x)
    assert rl.ops.script_doors.name == "script_doors" and run("return ops.script_doors.f(x)", x).tolist() == [2, 4]


@pytest.mark.parametrize("body,text", [
    ("n = __torch__.N(1, 2)\nreturn n.f(x)", "is no method"),
    ("n = __torch__.N(1, 2)\nreturn n.count(1)", "is no method"),
    ("n = __torch__.N(1, 2)\nreturn n._fields", "no attributes"), ("return x.sum()", "is no method"),
    ("return x.shape", "no attributes"), ("return self.__dict__", "no attribute"), ("return self.forward", "attribute"),
    ("return self.__class__", "no attribute"), ("return self.train(False)", "is no method"),
    ("return self.kind()", "is no method"), ("return ops.prim.type(x)", "reads .type of"),
    ("return ops.prim.index([1])", "reads .index of"), ("return ops.prim.data([1])", "reads .detach of"),
    ("return ops.aten.from_file('/dev/zero', False, 8, dtype=0)", "not known"),
    ("return ops.aten.__class__(x)", "not known"), ("return torch.packets(x)", "not known"),
    ("return ops.prim.__class__(x)", "not known"), ("y = forward(x)", "no function of it"),
    ("return ops.aten.sorted([1], key=self)", "argument"), ("return ops.aten.max([1, 2], key=self)", "argument"),
    ("return ops.prim.max(1, 2, key=self)", "argument")])
def test_nothing_of_values_is_called_but_methods_of_the_files_classes(body, text):
    with pytest.raises((RuntimeError, TypeError), match=text):
        run(body, rl.ones(2), before=NAMED)


@pytest.mark.parametrize("name", ["_codecs\nencode", "builtins\nset", "torch._tensor\n_rebuild_from_type_v2",
                                  "builtins\neval", "os\nsystem"])
def test_pickles_refer_to_nothing_that_files_do_not_need(name):
    state = b"}U\x01fc" + name.encode() + b"\nsb"
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        rl.jit.load(archive(HEAD, state))


def test_what_is_allowed_for_checkpoints_is_not_for_programs():
    with rl.serialization.safe_globals([print]), pytest.raises(pickle.UnpicklingError, match="no TorchScript file"):
        rl.jit.load(archive(HEAD, b"}U\x01fcbuiltins\nprint\nsb"))


def test_deep_values_are_never_hashed():
    deep = b"}(" + b"c__torch__\nN\n" * 20000 + b"K\x01" + b"\x85R" * 20000 + b"K\x01u" + b"b"
    with pytest.raises((pickle.UnpicklingError, RuntimeError), match="nests values more than|number of parts"):
        rl.jit.load(archive("class N(NamedTuple):\n  f : int\n" + HEAD, deep))
    for use in ("hash(x)", "{x: 1}", "ops.aten.get({1: 1}, x)", "ops.aten._set_item({1: 1}, x, 1)", "({1: 1})[x]",
                "ops.aten.__contains__({1: 1}, x)", "ops.aten.dict([(x, 1)])", "ops.aten.Delete({1: 1}, x)",
                "ops.aten.pop({1: 1}, x)", "ops.aten.update({1: 1}, [(x, 1)])", "ops.aten.setdefault({1: 1}, x, 1)"):
        body = f"x = (1,)\nfor i in range(200000):\n  x = (x,)\ny = {use}\nreturn y"
        with pytest.raises(CodeError, match="a key of the type tuple"):
            run(body, rl.ones(1))
    for use in ("torch.zeros(x)", "torch.device(x)", "device(x)", "ops.prim.RaiseException('', x)",
                "torch.tensor(x, dtype=x)", "torch.sum(torch.ones([1]), x)"):
        with pytest.raises((RuntimeError, TypeError, ValueError)):
            run(f"x = (1,)\nfor i in range(200000):\n  x = (x,)\ny = {use}\nreturn y", rl.ones(1))


def test_small_files_do_not_fill_memory():
    with pytest.raises(RuntimeError, match="is too much"):
        rl.jit.load(archive(HEAD, **{"extra/big": b"\0" * (8 << 20)}), {"big": ""})
    with pytest.raises(RuntimeError, match="too long"):
        rl.jit.load(archive(HEAD + "#" * (3 << 19), kind=zipfile.ZIP_STORED))
    with pytest.raises(CodeError, match="no literal"):
        rl.jit.load(archive(HEAD + "  c : str = torch.mul('x', 10000000)\n"))
    with pytest.raises(CodeError, match="list of"):
        run("return ops.prim.rangelist(100000000000)", rl.ones(1))
    names = [f"m{i}" for i in range(3)]
    calls = "".join(f"    __torch__.{name}.f(x)\n" for name in names)
    code = HEAD + "  def forward(self: __torch__.M, x: Tensor) -> Tensor:\n" + calls + "    return x\n"
    sources = {f"code/__torch__/{name}.py": "#" * 1000000 + "\ndef f(x: Tensor) -> Tensor:\n  return x\n" for name in
               names}
    with pytest.raises(CodeError, match="have more than"):
        rl.jit.load(archive(code, kind=zipfile.ZIP_STORED, **sources))


def test_trees_of_sources_are_bounded():
    lines = "    y = [" + "x," * 500 + "]\n"
    code = HEAD + "  def forward(self: __torch__.M, x: Tensor) -> Tensor:\n" + lines * 260 + "    return x\n"
    assert len(code) < 1 << 19
    with pytest.raises(CodeError, match="words and signs"):
        rl.jit.load(archive(code, kind=zipfile.ZIP_STORED))


def test_numbers_are_added_to_tensors_of_whole_numbers():
    x = rl.tensor([1, 2])
    assert run("return torch.add(x, 1.5)", x).tolist() == [2.5, 3.5]
    assert run("return torch.add(x, 1.5, alpha=2)", x).tolist() == [4.0, 5.0]
    assert run("return torch.sub(x, 1.5, 2)", x).tolist() == [-2.0, -1.0]
    assert run("return torch.add(x, 2)", x > 1).tolist() == [2, 3]


def test_texts_and_lists_are_not_computed_with():
    for body, text in (("y = torch.remainder('%99999999999d', 1)\nreturn y", "computes with a str"),
                       ("y = torch.mul('x', 100000000)\nreturn y", "too often"),
                       ("y = torch.mul([1], 100000000)\nreturn y", "too often"),
                       ("y = torch.pow('a', 2)\nreturn y", "computes with a str")):
        with pytest.raises(CodeError, match=text):
            run(body, rl.ones(1))
    assert run("n = 9223372036854775807\nfor i in range(2000):\n  n = torch.mul(n, n)\nreturn n", rl.ones(1)) == 1
    assert run("return torch.__lshift__(1, 100000000000)", rl.ones(1)) == 1 << (100000000000 & 63)


def test_errors_of_code_that_runs_at_loading_are_not_called_damage():
    code = HEAD + "  def __setstate__(self: __torch__.M, s: int) -> NoneType:\n    ops.prim.RaiseException('no', {})\n"
    with pytest.raises(KeyError, match="no"):
        rl.jit.load(archive(code.format("'builtins.KeyError'")))
    with pytest.raises(RuntimeError, match="is damaged: IndexError"):
        rl.jit.load(archive(HEAD, b"}t"))


def test_layouts_and_orders_that_are_not_known_are_refused():
    assert run("return torch.zeros([2], dtype=6, layout=0)", rl.ones(1)).tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="names a Layout by the number 1"):
        run("return torch.zeros([2], dtype=6, layout=1)", rl.ones(1))
    with pytest.raises(RuntimeError, match="names a MemoryFormat by the number 9"):
        run("return torch.contiguous(x, memory_format=9)", rl.ones(1))
