"""Modules of equal structure, each compiled by itself, are captured once; those that differ are captured again."""
import gc
import random
import weakref

import pytest

import rushlight as torch
from rushlight import nn
from rushlight._src.capture.stance import counters

F = nn.functional


class Block(nn.Module):
    def __init__(self, width=4, activation=F.gelu):
        super().__init__()
        self.norm, self.a, self.b = nn.LayerNorm(width), nn.Linear(width, 8), nn.Linear(8, width)
        self.activation, self.scale = activation, 2

    def forward(self, x):
        return x + self.b(self.activation(self.a(self.norm(x)))) * self.scale


class Counting(nn.Module):
    """Writes its state: a buffer, a number, a list, and what batch norm averages."""

    def __init__(self, start=0):
        super().__init__()
        self.norm, self.calls, self.seen = nn.BatchNorm1d(4), start, []
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total += x.detach().sum(0)
        self.calls += 1
        self.seen.append(x.shape[0])
        return self.norm(x) + self.total


class Tied(nn.Module):
    def __init__(self, is_tied):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        if is_tied:
            self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x).tanh())


class Nesting(nn.Module):
    """Has one module under two names, or two modules."""

    def __init__(self, is_one):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = self.first if is_one else nn.Linear(4, 4)
        self.rows = nn.ModuleList([nn.Linear(4, 4), nn.ReLU()])

    def forward(self, x):
        for layer in self.rows:
            x = layer(x)
        return self.second(self.first(x)).sin()


class Holding(nn.Module):
    """Holds a plain tensor, and others in a list and a dict."""

    def __init__(self, value):
        super().__init__()
        self.plain, self.listed = torch.full((4,), float(value)), [torch.full((4,), float(value)), value]
        self.table, self.inner = {"x": torch.full((4,), float(value))}, [nn.Linear(4, 4)]

    def forward(self, x):
        return self.inner[0](x) * self.plain + self.listed[0] * self.listed[1] - self.table["x"]


class Itself(nn.Module):
    """Depends on which module it is."""

    def forward(self, x):
        return x * (id(self) % 1009) + TABLE.get(self, 0)


class Closing(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.function = lambda x: x * factor
        self.method = self.double

    def double(self, x):
        return x + self.extra

    extra = 1

    def forward(self, x):
        return self.method(self.function(x))


class Breaking(nn.Module):
    """Goes on after a break."""

    def __init__(self, factor):
        super().__init__()
        self.a, self.factor = nn.Linear(4, 4), factor

    def forward(self, x):
        x = self.a(x)
        torch._dynamo.graph_break()
        return self.a(x) * self.factor


TABLE: dict = {}


def hooked(kind):
    made = Block()
    if kind == 1:
        made.a.register_forward_hook(halve)
    if kind == 2:
        made.a.register_forward_hook(lambda module, args, result: result + 1)
    if kind == 3:
        made.norm.register_forward_pre_hook(lambda module, args: (args[0] * 3,))
    if kind == 4:
        made.a.weight.register_hook(lambda gradient: gradient * 2)
    return made


def halve(module, args, result):
    return result / 2


def differing(kind):
    made = Block(activation=F.relu if kind == 1 else F.gelu)
    if kind == 2:
        made.scale = 3
    if kind == 3:
        made.a = nn.Linear(4, 8, bias=False)
    if kind == 4:
        made.norm = nn.RMSNorm(4)
    if kind == 5:
        made.a.weight.requires_grad_(False)
    if kind == 6:
        made.b.forward = lambda x: x[:, :4] * 7
    if kind == 7:
        made.norm.eps = 0.5
    if kind == 8:
        made.a, made.b = nn.Linear(4, 9), nn.Linear(9, 4)
    if kind == 9:
        made.a = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.0))
    return made


def training(kind):
    return Counting().train(not kind)


def placed(kind):
    made = Itself()
    if kind:
        TABLE[made] = kind
    return made


VARIANTS = {  # how a block is made -> how many kinds of it there are
    differing: 10, hooked: 5, Counting: 3, training: 2, Tied: 2, Nesting: 2, Holding: 3, placed: 3, Closing: 3,
    Breaking: 2}


def state_of(block):
    return [*block.state_dict().values(), *(getattr(block, name, None) for name in ("calls", "seen"))]


def compare(blocks, compiled, generator, rounds=2):
    """Calls each compiled block and a copy that is not compiled: results, gradients and state are the same."""
    for _ in range(rounds):
        for block, plain, run in zip(*blocks, compiled):
            x = torch.tensor([[generator.uniform(-1, 1) for _ in range(4)] for _ in range(3)], requires_grad=True)
            y = x.detach().clone().requires_grad_()
            found, wanted = run(x), plain(y)
            torch.testing.assert_close(found, wanted)
            found.sum().backward()
            wanted.sum().backward()
            torch.testing.assert_close(x.grad, y.grad)
            torch.testing.assert_close([p.grad for p in block.parameters()], [p.grad for p in plain.parameters()])
            torch.testing.assert_close(state_of(block), state_of(plain))


def compile_each(blocks, how):
    if how == "method":
        for block in blocks:
            block.compile(backend="eager")
        return blocks
    return [torch.compile(block, backend="eager") for block in blocks]


def twins(make, kinds):
    """Blocks of these kinds, and what they are compared with: others that begin alike."""
    def made(kind, seed):
        torch.manual_seed(seed)
        return make(kind)

    blocks, plain = ([made(kind, seed) for seed, kind in enumerate(kinds)] for _ in range(2))
    return blocks, blocks if make is placed else plain


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    TABLE.clear()
    yield
    TABLE.clear()


@pytest.mark.parametrize("how", ["method", "function"])
@pytest.mark.parametrize("make, kind", [(differing, 0), (differing, 3), (hooked, 0), (Counting, 0), (training, 1),
                                        (Tied, True), (Tied, False), (Nesting, True), (Nesting, False)])
def test_equal_blocks_are_captured_once(make, kind, how):
    pair = twins(make, [kind] * 6)
    compare(pair, compile_each(pair[0], how), random.Random(0), rounds=1)
    assert counters["frames"]["total"] == 1 and counters["stats"]["shared_segments"] == 5
    assert counters["stats"]["unique_graphs"] == 1


def test_guards_of_equal_layers_are_compiled_once():
    layers = [torch.compile(Block()) for _ in range(3)]
    for layer in layers:
        layer(torch.ones(2, 4))
    segments = [segment for layer in layers for entry in layer.owner.entries.values() for segment in entry.segments]
    assert len(segments) == 3
    for guards in [segment.guard for segment in segments], [segment.arming.check for segment in segments]:
        assert len({id(guard.__code__) for guard in guards}) == 1


def test_all_segments_around_a_break_are_shared():
    pair = twins(Breaking, [2] * 4)
    compiled = compile_each(pair[0], "function")
    compare(pair, compiled, random.Random(0))
    assert counters["frames"]["total"] == 2
    assert all(len(run.owner.stats.breaks) == 1 and len(run.owner.stats.graphs) == 2 for run in compiled)


@pytest.mark.parametrize("how", ["method", "function"])
@pytest.mark.parametrize("make", VARIANTS)
@pytest.mark.parametrize("seed", range(3))
def test_blocks_that_differ_compute_what_they_do_uncompiled(make, seed, how):
    generator = random.Random(seed)
    pair = twins(make, [generator.randrange(VARIANTS[make]) for _ in range(5)])
    compare(pair, compile_each(pair[0], how), generator)


def change_scale(block):
    block.scale = 5


def change_activation(block):
    block.activation = torch.tanh


def replace_layer(block):
    block.a = nn.Linear(4, 8)
    with torch.no_grad():
        block.a.weight.fill_(0.25), block.a.bias.fill_(0.5)


def replace_parameter(block):
    block.b.weight = nn.Parameter(torch.full((4, 8), 0.125))


def add_hook(block):
    block.norm.register_forward_hook(halve)


def freeze(block):
    block.a.weight.requires_grad_(False)


@pytest.mark.parametrize("change", [change_scale, change_activation, replace_layer, replace_parameter, add_hook,
                                    freeze])
@pytest.mark.parametrize("which", [0, 2])
def test_changes_of_one_block_are_noticed_by_it_alone(change, which):
    pair = twins(differing, [0] * 4)
    compiled = compile_each(pair[0], "function")
    compare(pair, compiled, random.Random(0), rounds=1)
    for blocks in pair:
        change(blocks[which])
        for parameter in (p for block in blocks for p in block.parameters()):
            parameter.grad = None
    compare(pair, compiled, random.Random(1))
    assert counters["frames"]["total"] <= 2


def test_other_options_do_not_share():
    a, b, c = Block(), Block(), Block()
    for block, options in ((a, {}), (b, {"fullgraph": True}), (c, {"dynamic": False})):
        torch.compile(block, backend="eager", **options)(torch.ones(2, 4))
    assert counters["frames"]["total"] == 3


def test_a_compiled_function_shares_for_modules_that_it_is_given():
    f = torch.compile(lambda block, x: block(x) + 1, backend="eager")
    blocks = [Block() for _ in range(3)]
    for block in blocks:
        torch.testing.assert_close(f(block, torch.ones(2, 4)), block(torch.ones(2, 4)) + 1)
    assert counters["frames"]["total"] == 1


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.a, self.rows = nn.Linear(4, 4), kind(4, 4, batch_first=True)

    def forward(self, x):
        return self.rows(self.a(x))[0]


@pytest.mark.parametrize("how", ["method", "function"])
@pytest.mark.parametrize("make", [
    lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), lambda: nn.LSTM(4, 4, batch_first=True),
    lambda: Recurrent(nn.LSTM), lambda: Recurrent(nn.GRU), lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)),
    lambda: nn.Sequential(nn.Conv1d(3, 2, 3), nn.BatchNorm1d(2)), lambda: nn.Linear(4, 4)])
def test_layers_of_the_package_are_captured_once(make, how):
    layers = [make() for _ in range(3)]
    x = torch.randn(2, 3, 4)
    with torch.no_grad():
        wanted = []
        for layer in layers:
            torch.manual_seed(0)
            wanted.append(layer(x))
        for run, value in zip(compile_each(layers, how), wanted):
            torch.manual_seed(0)
            torch.testing.assert_close(run(x), value)
    assert counters["frames"]["total"] == 1


@pytest.mark.parametrize("differs", [False, True])
def test_modules_within_arguments_and_closures_are_found(differs):
    def closed(block):
        return torch.compile(lambda x: block(x), backend="eager")

    blocks = [Block() for _ in range(3)]
    blocks[1].scale += differs
    x = torch.ones(2, 4)
    for block in blocks:
        torch.testing.assert_close(closed(block)(x), block(x))
    assert counters["frames"]["total"] == 1 + differs
    run = torch.compile(lambda rows, x: rows[1](rows[0]["a"](x)), backend="eager")
    for a, b in zip(blocks, [*blocks[1:], blocks[2]]):
        torch.testing.assert_close(run([{"a": a}, b], x), b(a(x)))


def test_no_block_keeps_another_alive():
    first, second = Block(), Block()
    runs = compile_each([first, second], "function")
    for run in runs:
        run(torch.ones(2, 4))
    gone = weakref.ref(first)
    del first, runs[0], run
    gc.collect()
    assert gone() is None
    third = Block()
    torch.testing.assert_close(torch.compile(third, backend="eager")(torch.ones(2, 4)), third(torch.ones(2, 4)))
    assert counters["frames"]["total"] == 1


# --- functions --------------------------------------------------------------------------------------------------------
class Scaled:
    """An object with a method; not a module."""

    offset = 1

    def __init__(self, scale, function=torch.sin):
        self.scale, self.function, self.rows = scale, function, [scale]

    def run(self, x, k=2):
        self.rows.append(k)
        return self.function(x) * self.scale + self.offset * k + len(self.rows)


def scale_by(factor, object=None):
    def scale(x):
        return (x * factor).tanh() if object is None else x * factor - object.scale

    return scale


def break_twice(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x.sin() * 3


def count_captures(*calls):
    """Captures that calls make, each (compiled function, arguments, the expected result)."""
    before = counters["frames"]["total"]
    for run, args, expected in calls:
        torch.testing.assert_close(run(*args), expected)
    return counters["frames"]["total"] - before


def test_a_function_that_is_compiled_again_is_not_captured_again():
    x, calls = torch.ones(3), []
    for _ in range(3):
        calls.append((torch.compile(break_twice, backend="eager"), (x,), torch.sin(x + 1) * 3))
    assert count_captures(*calls) == 2  # before and after the break
    graphs = [torch.compile(scale_by(2.0), fullgraph=True) for _ in range(3)]
    assert count_captures(*[(run, (x,), (x * 2).tanh()) for run in graphs]) == 1


def test_methods_of_several_objects_share_what_guards_allow():
    x, wanted = torch.ones(3), Scaled(3).run(torch.ones(3))
    runs = [torch.compile(Scaled(3).run, backend="eager", fullgraph=True) for _ in range(4)]
    assert count_captures(*[(run, (x,), wanted) for run in runs]) == 1
    other = torch.compile(Scaled(3, torch.cos).run, backend="eager")
    assert count_captures((other, (x,), Scaled(3, torch.cos).run(x))) == 1
    assert count_captures((torch.compile(Scaled(4).run, backend="eager"), (x,), Scaled(4).run(x))) == 1


@pytest.mark.parametrize("second, wanted", [
    (scale_by(3.0), lambda x: (x * 3).tanh()), (scale_by(2.0, Scaled(5)), lambda x: x * 2 - 5),
    (scale_by(torch.tensor(2.0)), lambda x: (x * 2).tanh())])
def test_closures_that_differ_are_captured_again(second, wanted):
    x = torch.ones(3)
    first = torch.compile(scale_by(2.0), backend="eager")
    assert count_captures((first, (x,), (x * 2).tanh()), (torch.compile(second, backend="eager"), (x,), wanted(x))) == 2
    assert count_captures((first, (x,), (x * 2).tanh())) == 0


def test_functions_under_other_options_share_nothing():
    x, made = torch.ones(3), []
    function = scale_by(2.0)
    for options in ({}, {"fullgraph": True}, {"dynamic": True}, {"dynamic": False}):
        run = torch.compile(function, backend=lambda graph, inputs: made.append(graph) or graph.forward, **options)
        torch.testing.assert_close(run(x), (x * 2).tanh())
    assert len(made) == 4


def test_a_function_shared_by_several_compiled_ones_ends_with_the_last():
    module = nn.Linear(3, 3)

    def run(x):
        return module(x)

    gone = weakref.ref(module)
    first, second = torch.compile(run, backend="eager"), torch.compile(run, backend="eager")
    x = torch.ones(3)
    assert count_captures((first, (x,), module(x)), (second, (x,), module(x))) == 1
    del first
    gc.collect()
    assert count_captures((second, (x,), module(x))) == 0
    del second, module, run
    gc.collect()
    assert gone() is None
