"""TorchScript files that PyTorch wrote: their modules compute what PyTorch's do, and damaged ones are refused."""
import ast
import io
import pickle
import random
import warnings
import zipfile

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402
from rushlight.jit.foreign_code import CodeError, parsed  # noqa: E402
from rushlight.jit.foreign_values import formatted  # noqa: E402
from rushlight.utils._pytree import tree_leaves  # noqa: E402
from tests.io import torchscript_models as models  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def written(name, how) -> tuple:
    """(the file, arguments as arrays, PyTorch's results)."""
    torch.manual_seed(0)
    module, given = models.MODELS[name]()
    module.eval()
    file = io.BytesIO()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = torch.jit.trace(module, given) if how == "trace" else torch.jit.script(module)
        torch.jit.save(made, file)
        return file.getvalue(), [x.numpy() for x in given], made(*given)


def theirs(result) -> list:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


CASES = [(name, how) for name in models.MODELS for how in ("trace", "script") if (name, how) != ("head", "trace")]


@pytest.mark.parametrize("name,how", CASES)
def test_results_are_pytorchs(name, how):
    file, given, wanted = written(name, how)
    module = rl.jit.load(io.BytesIO(file))
    with rl.no_grad():
        found = module(*map(rl.tensor, given))
    for ours, judge in zip(tree_leaves(found), theirs(wanted), strict=True):
        rl.testing.assert_close(ours, rl.from_numpy(judge.numpy()), rtol=1e-5, atol=1e-5)
    assert not module.training and len(module.state_dict()) == sum(1 for _ in module.state_dict())


@pytest.mark.parametrize("name", ["residual", "attention"])
def test_they_are_compiled_and_exported_like_others(name):
    file, given, wanted = written(name, "script")
    module, given = rl.jit.load(io.BytesIO(file)), tuple(map(rl.tensor, given))
    program = rl.export.export(module, given)
    with rl.no_grad():
        for run in (rl.compile(module, fullgraph=True), program.module(), program.run_decompositions().module()):
            rl.testing.assert_close(run(*given), rl.from_numpy(wanted.numpy()), rtol=1e-5, atol=1e-5)


def test_state_is_named_as_it_was_and_can_be_trained():
    file, given, _ = written("residual", "script")
    module = rl.jit.load(io.BytesIO(file))
    judge = torch.jit.load(io.BytesIO(file))
    assert list(module.state_dict()) == list(judge.state_dict())
    assert {n for n, _ in module.named_parameters()} == {n for n, _ in judge.named_parameters()}
    x = rl.tensor(given[0])
    before = module(x)
    module.train()
    module(x).sum().backward()
    assert all(p.grad is not None for p in module.parameters())
    module.eval()
    assert not rl.allclose(module(x), before)  # its batch norms have moved
    assert "original_name" in repr(module)


def test_errors_of_programs_are_theirs():
    file, given, _ = written("head", "script")
    module = rl.jit.load(io.BytesIO(file))
    with pytest.raises(RuntimeError, match="scores are too large"):
        module(rl.tensor(given[0]) + float("inf"))
    with pytest.raises(RuntimeError, match="missing value for argument 'x'"):
        module()
    with pytest.raises(RuntimeError, match="at most 2"):
        module(1, 2)


def replaced(file, change) -> io.BytesIO:
    """The archive with other code."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(file)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, change(content.decode()) if b"class Residual(" in content else content)
    out.seek(0)
    return out


REFUSALS = ("which is not TorchScript|which is no function of it|which is not registered|has no attributes there|"
            "has no constant c99|nested .* deep|which nothing has set|the file has no (entry|__torch__)")


@pytest.mark.parametrize("line", [
    "import os", "x = (lambda: 1)()", "x = [k for k in y]", "x = eval('1')", "x = __import__('os')",
    "x = (y).__class__", "x = torch.nn.functional.relu(y)", "x = ops.os.system('true')", "x = y if 1 < 2 else y",
    "del y", "x = f'{y}'", "with y:\n      pass", "x = torch.conv2d(*y)", "x = " + "(" * 200 + "y" + ")" * 200,
    "global y", "raise y", "x = y.z.w = 1", "x = __torch__.os.system('true')", "x = CONSTANTS.c99",
    "@y\n    def f(): pass"])
def test_code_outside_of_the_language_is_refused(line):
    file, given, _ = written("residual", "script")

    def change(text):
        place = text.index("  def forward(")
        end = text.index(":\n", text.index("-> Tensor", place)) + 2
        return text[:end] + "    y = [1]\n    " + line + "\n" + text[end:]

    with pytest.raises(RuntimeError, match=REFUSALS):
        rl.jit.load(replaced(file, change))(rl.tensor(given[0]))


def test_texts_have_no_fields():
    assert formatted("a {} b {0.__class__} {}", 1, "x") == "a 1 b {0.__class__} x"
    with pytest.raises(CodeError, match="nested"):
        parsed("x = " + "[" * 100 + "]" * 100)
    assert isinstance(parsed("x = 1"), ast.Module)


def test_damaged_files_are_refused():
    found = random.Random(0)
    files = [written("head", "script")[0], written("recurrent", "trace")[0]]
    for count in range(120):
        file = bytearray(files[count % 2])
        for _ in range(found.choice((1, 3, 20))):
            file[found.randrange(len(file))] = found.randrange(256)
        try:
            rl.jit.load(io.BytesIO(bytes(file)))
        except (RuntimeError, EOFError, pickle.UnpicklingError):
            pass  # nothing else may be raised


def test_tied_weights_are_one_parameter():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Embedding(4, 3), torch.nn.Linear(3, 4, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    file = io.BytesIO()
    torch.jit.save(torch.jit.trace(Tied(), torch.tensor([1, 2])), file)
    file.seek(0)
    module = rl.jit.load(file)
    assert len(list(module.parameters())) == 1 and module.a.weight is module.b.weight
    module(rl.tensor([1, 2])).sum().backward()
    assert module.a.weight.grad is not None


@pytest.mark.parametrize("layer,packed,text", [
    (torch.nn.LSTM(3, 5, proj_size=2), False, "projections"), (torch.nn.LSTM(3, 5), True, "pack"),
    (torch.nn.GRU(3, 5), True, "pack")])
def test_recurrent_layers_of_other_kinds_are_refused(layer, packed, text):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            if packed:
                x = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]))
                return self.layer(x)[0].data
            return self.layer(x)[0]

    file = io.BytesIO()
    torch.jit.save(torch.jit.trace(Model(), torch.ones(3, 2, 3)), file)
    file.seek(0)
    with pytest.raises((RuntimeError, NotImplementedError), match=text):
        rl.jit.load(file)(rl.ones(3, 2, 3))
