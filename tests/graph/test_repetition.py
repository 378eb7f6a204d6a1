"""Repeated subgraphs, found in sequences and programs, and sequences that continue them."""
import pytest

import rushlight as torch
from rushlight._src.core.dtypes import float32
from rushlight._src.core.kinds import P
from rushlight._src.core.meta import Meta
from rushlight._src.graph.graph import Graph, Node
from rushlight._src.graph.regions import Lengthened, in_demand, shortened
from rushlight._src.graph.repetition import Irregular, Longer, find

EIGHT = Meta.of((8,), float32)


def chain(count):
    """A start, ``count`` layers of two entries that pass a value on, and an end."""
    entries = [("begin", ("x0", "start"))]
    for k in range(count):
        entries += [("mul", (f"m{k}", f"x{k}", f"w{k}", "start")), ("add", (f"x{k + 1}", f"m{k}"))]
    return [*entries, ("end", ("y", f"x{count}"))]


def test_stretches_are_found():
    run = find(chain(6))
    assert (run.start, run.length, run.count) == (1, 2, 6)
    assert run.outer == {"start"}
    assert run.stretch_of("w3") == 3 and run.counterpart("w3", 5) == "w5" and run.stretch_of("start") is None


@pytest.mark.parametrize("more", [1, 2, 5])
def test_a_longer_sequence_is_that_of_more_stretches(more):
    longer = Longer(find(chain(4)), more)
    names: dict = {}
    for entry, shift in longer.entries():
        for thing in longer.things(entry, shift):
            names.setdefault(thing, len(names))
    found = [(longer.short.entries[k][0], tuple(names[t] for t in longer.things(k, shift)))
             for k, shift in longer.entries()]
    names, wanted = {}, chain(4 + more)
    for _, things in wanted:
        for thing in things:
            names.setdefault(thing, len(names))
    assert found == [(form, tuple(names[t] for t in things)) for form, things in wanted]


def test_things_further_on():
    longer = Longer(find(chain(4)), 3)
    assert [longer.further("w0", n) for n in range(7)] == [("w0", 0), ("w1", 0), ("w1", 1), ("w1", 2), ("w1", 3),
                                                           ("w2", 0), ("w3", 0)]
    assert longer.further("start", 2) == ("start", 0)
    with pytest.raises(Irregular):
        longer.further("w3", 4)
    assert longer.spread(["w0", "w1", "w2"]) == [("w0", 0), ("w1", 0), ("w1", 1), ("w1", 2), ("w1", 3), ("w2", 0)]


def test_an_end_that_refers_to_the_middle():
    entries = chain(4)
    entries[-1] = "end", ("y", "x4", "m1")
    longer = Longer(find(entries), 2)
    with pytest.raises(Irregular, match="other than the last"):
        for entry, shift in longer.entries():
            longer.things(entry, shift)


def test_nothing_repeats():
    assert find([]) is None
    assert find([(k, (k,)) for k in range(20)]) is None
    assert find(chain(2)) is None


# --- programs ---------------------------------------------------------------------------------------------------------
def program(count, differs=None):
    """x = tanh(x w) + b, again and again."""
    x = Node("x", None, meta=EIGHT)
    inputs, nodes = [x], []
    for k in range(count):
        w, b = (Node(f"{name}{k}", None, meta=EIGHT) for name in "wb")
        inputs += w, b
        nodes.append(Node(f"p{k}", P.mul, (x, w), meta=EIGHT))
        nodes.append(Node(f"q{k}", P.sin if k == differs else P.tanh, (nodes[-1],), meta=EIGHT))
        x = Node(f"r{k}", P.add, (nodes[-1], b), meta=EIGHT)
        nodes.append(x)
    return Graph(inputs, nodes, [x])


def test_a_program_and_its_short_form():
    whole = program(9)
    region = shortened(whole)
    assert str(region) == "8 equal stretches of 3 nodes; the second of them (q1 to p2) stands for 3 more"
    assert str(region.short) == """def program(x: "float32[8]", w0: "float32[8]", b0: "float32[8]", w1: "float32[8]", b1: "float32[8]", w2: "float32[8]", b5: "float32[8]", w6: "float32[8]", b6: "float32[8]", w7: "float32[8]", b7: "float32[8]", w8: "float32[8]", b8: "float32[8]"):
    p0 = prims.mul(x, w0)  # float32[8]
    q0 = prims.tanh(p0)  # float32[8]
    r0 = prims.add(q0, b0)  # float32[8]
    p1 = prims.mul(r0, w1)  # float32[8]
    q1 = prims.tanh(p1)  # float32[8]
    r1 = prims.add(q1, b1)  # float32[8]
    p2 = prims.mul(r1, w2)  # float32[8]
    q5 = prims.tanh(p2)  # float32[8]
    r5 = prims.add(q5, b5)  # float32[8]
    p6 = prims.mul(r5, w6)  # float32[8]
    q6 = prims.tanh(p6)  # float32[8]
    r6 = prims.add(q6, b6)  # float32[8]
    p7 = prims.mul(r6, w7)  # float32[8]
    q7 = prims.tanh(p7)  # float32[8]
    r7 = prims.add(q7, b7)  # float32[8]
    p8 = prims.mul(r7, w8)  # float32[8]
    q8 = prims.tanh(p8)  # float32[8]
    r8 = prims.add(q8, b8)  # float32[8]
    return r8"""


def test_a_lengthened_program_computes_what_the_whole_does():
    whole = program(9)
    region = shortened(whole)
    leaves = {(n, c): Node(f"{n.name}_{c}", None, meta=EIGHT) for n, c in region.thing_of_input}
    written = Lengthened(region.short, region.longer, region.thing_of_input, region.thing_of_output, leaves)
    values = [torch.randn(8) for _ in whole.inputs]
    assert len(written.graph.nodes) == len(whole.nodes)
    assert torch.equal(written.run(values)[0], whole.run(values)[0])


@pytest.mark.parametrize("differs", [0, 1, 4, 8])
def test_a_stretch_that_differs_stays_outside(differs):
    region = shortened(program(9, differs))
    assert region is None or all(n.op is P.sin for n in region.short.nodes if n.name == f"q{differs}")


def test_too_few_stretches_are_left():
    assert shortened(program(6)) is None


def test_what_is_cheap_comes_when_it_is_needed():
    x = Node("x", None, meta=EIGHT)
    early = Node("early", P.tanh, (x,), meta=EIGHT)
    first = Node("first", P.sin, (x,), meta=EIGHT)
    second = Node("second", P.add, (first, early), meta=EIGHT)
    assert [n.name for n in in_demand([early, first, second], {first, second})] == ["first", "early", "second"]
