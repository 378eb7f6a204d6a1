"""A compiled function sees every change of the modules that it uses, however it was written."""
import collections
import types

import pytest

import rushlight as torch

X = torch.ones(2)


class Part(torch.nn.Module):
    def __init__(self, value=1.0):
        super().__init__()
        self.value = value

    def forward(self, x):
        return x * self.value


class Slotted:
    def __init__(self):
        self.q = 1.0


class Network(torch.nn.Module):
    factor = 1.0

    def __init__(self):
        super().__init__()
        self.number, self.flag, self.word, self.nothing = 1.0, False, "a", None
        self.plain = torch.ones(2)
        self.pair = 1.0, [1.0]
        self.items, self.table, self.ordered = [1.0], {"k": 1.0}, collections.OrderedDict(k=1.0, j=3.0)
        self.queue, self.members = collections.deque([1.0]), {1.0}
        self.space, self.held = types.SimpleNamespace(q=1.0), Slotted()
        self.function = lambda x: x
        self.method = Part().forward
        self.register_buffer("buffer", torch.ones(2))
        self.parameter = torch.nn.Parameter(torch.ones(2))
        self.part = Part()
        self.listed = torch.nn.ModuleList([Part(), Part(1.5)])
        self.named = torch.nn.ModuleDict({"a": Part()})
        self.parameters_listed = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(2))])

    def helper(self, x):
        return x

    def forward(self, x):
        x = x * self.number * self.plain * self.pair[0] * self.pair[1][0] * self.items[0] * self.table["k"]
        x = x * next(iter(self.ordered.values())) * self.queue[0] * sum(self.members) * self.space.q * self.held.q
        x = x * (3 if self.flag else 1) * len(self.word) if self.nothing is None else x * 5
        x = self.method(self.function(x)) * self.buffer * self.parameter * self.factor * self.parameters_listed[0]
        for part in (self.part, *self.listed, *self.named.values()):
            x = part(x)
        return self.helper(x), self.buffer.dim(), self.parameter.requires_grad, self.buffer.requires_grad, self.training


# how a name is bound to a value in an object
WAYS = {
    "setattr": setattr, "object.__setattr__": object.__setattr__,
    "__dict__ item": lambda owner, name, value: owner.__dict__.__setitem__(name, value),
    "vars update": lambda owner, name, value: vars(owner).update({name: value}),
    "__dict__ merge": lambda owner, name, value: owner.__dict__.__ior__({name: value}),
    "pop and set": lambda owner, name, value: (vars(owner).pop(name, None), vars(owner).setdefault(name, value)),
    "clear and fill": lambda owner, name, value: refill(vars(owner), name, value),
    "another __dict__": lambda owner, name, value: object.__setattr__(owner, "__dict__", {**vars(owner), name: value}),
    "__setstate__": lambda owner, name, value: owner.__setstate__({**vars(owner), name: value})}


def refill(table, name, value):
    now = {**table, name: value}
    table.clear()
    table.update(now)


def twos():
    return torch.full((2,), 2.0)


def part(value):
    return Part(value)


# attributes kept in the instance's own dict, and what else they may be
ATTRIBUTES = {"number": 2.0, "flag": True, "word": "ab", "nothing": 0, "plain": twos(), "pair": (2.0, [1.0]),
              "items": [2.0], "table": {"k": 2.0}, "ordered": collections.OrderedDict(k=2.0),
              "queue": collections.deque([2.0]), "members": {2.0}, "space": types.SimpleNamespace(q=2.0),
              "function": lambda x: x * 2, "method": Part(2.0).forward, "helper": lambda x: x * 2, "factor": 2.0,
              "training": False, "_buffers": {"buffer": twos()},
              "_parameters": {"parameter": torch.nn.Parameter(twos())},
              "_modules": collections.OrderedDict(
                  part=Part(2.0), listed=torch.nn.ModuleList([Part(2.0)]), named=torch.nn.ModuleDict({"a": Part()}),
                  parameters_listed=torch.nn.ParameterList([torch.nn.Parameter(torch.ones(2))]))}

TABLES = {
    "item": lambda table, name, value: table.__setitem__(name, value),
    "update": lambda table, name, value: table.update({name: value}),
    "merge": lambda table, name, value: table.__ior__({name: value}),
    "pop and set": lambda table, name, value: (table.pop(name, None), table.setdefault(name, value)),
    "clear and fill": refill}

# values kept in a module's tables: which table, the name, another value
ENTRIES = {
    "buffer": lambda net: (net._buffers, "buffer", twos()),
    "buffer of another dtype": lambda net: (net._buffers, "buffer", twos().double()),
    "buffer of another shape": lambda net: (net._buffers, "buffer", torch.full((3, 2), 2.0)),
    "buffer with a gradient": lambda net: (net._buffers, "buffer", twos().requires_grad_()),
    "parameter": lambda net: (net._parameters, "parameter", torch.nn.Parameter(twos())),
    "frozen parameter": lambda net: (net._parameters, "parameter", torch.nn.Parameter(twos(), False)),
    "module": lambda net: (net._modules, "part", Part(2.0)),
    "module of a list": lambda net: (net.listed._modules, "1", Part(2.0)),
    "more in a list": lambda net: (net.listed._modules, "2", Part(2.0)),
    "module of a dict": lambda net: (net.named._modules, "a", Part(2.0)),
    "more in a dict": lambda net: (net.named._modules, "b", Part(2.0)),
    "parameter of a list": lambda net: (net.parameters_listed._parameters, "0", torch.nn.Parameter(twos())),
    "hook": lambda net: (net.part._forward_hooks, 9, lambda module, args, result: result * 2),
    "hook of a part of a list": lambda net: (net.listed[0]._forward_hooks, 9, lambda module, args, result: result * 2),
    "pre-hook": lambda net: (net.part._forward_pre_hooks, 9, lambda module, args: (args[0] * 2,)),
    "attribute of a part": lambda net: (vars(net.listed[1]), "value", 2.0),
    "dict": lambda net: (net.table, "k", 2.0), "ordered dict": lambda net: (net.ordered, "k", 2.0),
    "namespace": lambda net: (vars(net.space), "q", 2.0), "object": lambda net: (vars(net.held), "q", 2.0)}


def double(x):
    return x * 2


# changes of another form
CHANGES = {
    "list": lambda net: net.items.__setitem__(0, 2.0), "list within a tuple": lambda net: net.pair[1].insert(0, 2.0),
    "deque": lambda net: net.queue.appendleft(2.0), "set": lambda net: net.members.add(2.0),
    "order of a dict": lambda net: net.ordered.move_to_end("k"),
    "class of the network": lambda net: object.__setattr__(net, "__class__", type(
        "Other", (type(net),), {"helper": lambda self, x: x * 2})),
    "class of a part": lambda net: object.__setattr__(net.listed[0], "__class__", type(
        "Other", (Part,), {"forward": lambda self, x: x * 7})),
    "class of an object": lambda net: setattr(net.held, "__class__", type("Other", (Slotted,), {
        "q": property(lambda self: 2.0, lambda self, value: None)})),
    "attribute of the class": lambda net: setattr(type(net), "factor", 2.0),
    "method of the class": lambda net: setattr(type(net), "helper", lambda self, x: x * 2),
    "code of a method": lambda net: setattr(type(net).helper, "__code__", (lambda self, x: x * 2).__code__),
    "code of a function": lambda net: setattr(net.function, "__code__", double.__code__),
    "deleted": lambda net: (setattr(type(net), "number", 2.0), vars(net).pop("number")),
    "data": lambda net: setattr(net.parameter, "data", twos()), "set_": lambda net: net.buffer.set_(twos()),
    "data of a buffer": lambda net: setattr(net.buffer, "data", torch.full((3, 2), 2.0)),
    "resize_": lambda net: net.buffer.resize_(1).fill_(2.0), "unsqueeze_": lambda net: net.buffer.unsqueeze_(0),
    "gradient of a buffer": lambda net: net.buffer.requires_grad_(),
    "gradient of a parameter": lambda net: net.parameter.requires_grad_(False),
    "in place": lambda net: net.buffer.mul_(2), "eval": lambda net: net.eval(),
    "append": lambda net: net.listed.append(Part(2.0)), "delete": lambda net: net.listed.__delitem__(1),
    "register_buffer": lambda net: net.register_buffer("buffer", twos()),
    "load_state_dict": lambda net: net.load_state_dict({**net.state_dict(), "buffer": twos()}),
    "assigned state": lambda net: net.load_state_dict({**net.state_dict(), "buffer": twos()}, assign=True),
    "double": lambda net: net.double(), "forward": lambda net: setattr(net.part, "forward", double),
    "order of hooks": lambda net: net.part._forward_hooks.move_to_end(1)}


def outcome(function):
    tensor, *facts = function(X)
    return tensor.tolist(), tensor.dtype, tensor.requires_grad, facts


def check(change, prepare=lambda net: None):
    """A change made between two calls is seen, with gradients recorded and without."""
    for recorded in (True, False):
        net = type("Fresh", (Network,), {"helper": lambda self, x: x * 1})()
        prepare(net)
        compiled = torch.compile(net, backend="eager", fullgraph=True)
        with torch.set_grad_enabled(recorded):
            outcome(compiled)
            assert outcome(compiled) == outcome(net)
            before = outcome(net)
            change(net)
            assert outcome(compiled) == outcome(net)
            assert outcome(net) != before, "the change is one that nobody can see"
            assert outcome(compiled) == outcome(net)


@pytest.mark.parametrize("way", WAYS)
def test_attributes(way):
    for name, value in ATTRIBUTES.items():
        check(lambda net: WAYS[way](net, name, value))


@pytest.mark.parametrize("way", TABLES)
@pytest.mark.parametrize("entry", ENTRIES)
def test_entries(entry, way):
    check(lambda net: TABLES[way](*ENTRIES[entry](net)))


def prepare(net):
    net.part._forward_hooks.update({1: lambda module, args, result: result + 1,
                                    2: lambda module, args, result: result * 3})


@pytest.mark.parametrize("change", CHANGES)
def test_other_changes(change):
    check(CHANGES[change], prepare)


def test_what_does_not_change_costs_no_check():
    net = torch.nn.Sequential(*[torch.nn.Linear(2, 2) for _ in range(3)])
    compiled = torch.compile(lambda x: net(x), backend="eager")
    compiled(X)
    entry, = compiled.owner.entries.values()
    arming = entry.segments[0].arming
    assert arming.snapshot is not None and arming.holds()
    compiled(X).sum().backward()
    torch.optim.SGD(net.parameters(), lr=0.1).step()
    assert arming.holds()
    vars(net[0])["training"] = False
    assert not arming.holds()
