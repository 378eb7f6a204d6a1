"""Native classes: fields, methods, construction, subclassing, weak references, garbage collection, chains, calls."""

import gc
import pickle
import sys
import threading
import weakref

import pytest

from .twins import native, needs_native, outcome, twins

pytestmark = needs_native

SOURCE = '''
events = []

@native(weakref=True, freelist=4, subclassable=True, attributes=True)
class Node:
    """A node."""
    value: i64
    weight: f64
    flag: bool
    label: object
    next: "Node"
    parts: tuple

    def double(self) -> i64:
        """Twice the value."""
        return self.value * 2

    def grow(self, n: i64, label=None) -> "Node":
        head: Node = self
        for i in range(n):
            fresh = Node()
            fresh.value = head.value + 1
            fresh.next = head
            fresh.label = label
            head = fresh
        return head

    def total(self) -> i64:
        t = 0
        node: Node = self
        while node is not None:
            t += node.value
            node = node.next
        return t

    @property
    def name(self) -> str:
        return f"node {self.value}"

    def touch(self, x):
        self.weight += x
        self.value += 1
        self.flag = not self.flag
        self.label = self.parts
        self.parts = (x, self)
        return self.weight, self.value, self.flag, self.label, len(self.parts)

    def next_value(self) -> i64:
        return self.next.value

@native(freelist=2, acyclic=True)
class Resource:
    number: i64
    owner: object
    def finalize(self):
        events.append(self.number)
        if self.number < 0:
            raise ValueError("in finalize")

@native
def make(n: i64) -> Resource:
    r = Resource()
    r.number = n
    return r

@native
def make_and_fail(n: i64):
    r = make(n)
    raise KeyError(n)

@native(binds=True)
class Op:
    name: object
    hits: i64
    @vectorcall
    def call(self, args: Args, names: tuple) -> object:
        self.hits += 1
        if names is None:
            return self.name, len(args), args[0] if len(args) else None
        return self.name, len(args), names, args[len(args) - len(names):]

@native
class Forwarder:
    target: object
    @vectorcall
    def call(self, args: Args, names: tuple):
        return forward(self.target, args, names), forward_with(self.target, self, args, names)

@native
class State:
    count: i64
    last: Node
    held: object

state = State()
state.count = 5
state.last = Node()
state.last.value = 9

@native
def bump(n: i64) -> i64:
    state.count += n
    fresh = Node()
    fresh.value = state.count
    fresh.next = state.last
    state.last = fresh
    return state.count

@native
class Vector:
    x: f64
    y: f64
    def __add__(self, other):
        if type(other) is Vector:
            o: Vector = other
            return vector(self.x + o.x, self.y + o.y)
        return NotImplemented
    def __radd__(self, other):
        return "r", other
    def __mul__(self, k: f64) -> "Vector":
        return vector(self.x * k, self.y * k)
    def __neg__(self):
        return vector(-self.x, -self.y)
    def __iadd__(self, other):
        self.x += 100
        return self
    def __len__(self) -> i64:
        return 2
    def __bool__(self) -> bool:
        return self.x != 0.0
    def __getitem__(self, k: i64):
        return self.x if k == 0 else self.y
    def __setitem__(self, k: i64, v: f64):
        self.x = v
    def __contains__(self, v: f64) -> bool:
        return self.x == v or self.y == v
    def __repr__(self):
        return f"Vector({self.x}, {self.y})"
    def __eq__(self, other):
        if type(other) is not Vector:
            return NotImplemented
        o: Vector = other
        return self.x == o.x and self.y == o.y
    def __hash__(self) -> i64:
        return int(self.x)

@native
def vector(x: f64, y: f64) -> Vector:
    v = Vector()
    v.x = x
    v.y = y
    return v
'''


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    return twins(tmp_path_factory.mktemp("classes"), SOURCE)


@pytest.fixture(scope="module", params=["plain", "native"])
def module(request, both):
    return getattr(both, request.param)


@pytest.fixture(scope="module")
def compiled(both):
    return both.native


def test_fields_and_methods(module):
    node = module.Node()
    assert (node.value, node.weight, node.flag, node.label, node.next, node.parts) == (0, 0.0, False, None, None, None)
    node.value, node.label = 5, "x"
    assert node.double() == 10 and node.name == "node 5"
    assert [node.touch(k)[:3] for k in (1, 2.5)] == [(1.0, 6, True), (3.5, 7, False)]
    assert node.parts[1] is node and node.label[0] == 1
    node.parts = node.label = None
    head = node.grow(4, "l")
    assert (head.total(), head.label, head.next.next.value) == (7 + 8 + 9 + 10 + 11, "l", 9)
    assert outcome(node.next_value) is AttributeError
    node.extra = 3
    assert node.extra == 3 and node.__dict__ == {"extra": 3}
    with pytest.raises(TypeError):
        module.Node(1)


def test_field_types_are_checked(compiled):
    node = compiled.Node()
    for field, wrong in (("next", 3), ("parts", []), ("value", "x"), ("weight", "x"), ("value", 1.5)):
        with pytest.raises(TypeError):
            setattr(node, field, wrong)
    with pytest.raises(TypeError, match="Node.next must be Node, not int"):
        node.next = 3
    node.next = node
    del node.next
    assert node.next is None
    with pytest.raises(TypeError):
        compiled.Node.double(3)
    with pytest.raises(TypeError):
        node.grow("x")
    with pytest.raises(TypeError):
        node.grow()
    with pytest.raises(TypeError):
        compiled.Resource().__class__.__bases__[0].__new__(compiled.Resource)


def test_long_chains_are_freed(compiled):
    base = compiled.Node()
    head = base.grow(300_000)
    refs = weakref.ref(head)
    del head
    alone = object()
    assert refs() is None and sys.getrefcount(base) == sys.getrefcount(alone)  # as many as the frame itself holds
    node = None
    for _ in range(100_000):  # through tuples
        fresh = compiled.Node()
        fresh.parts = (node,)
        node = fresh
    del node, fresh


def test_cycles_are_collected(compiled):
    a, b = compiled.Node(), compiled.Node()
    a.next, b.label, a.parts, a.loop = b, a, (a,), [a]
    refs = weakref.ref(a), weakref.ref(b)
    del a, b
    gc.collect()
    assert refs[0]() is None and refs[1]() is None


def test_weak_references_and_recycling(compiled):
    for _ in range(20):
        node = compiled.Node()
        node.label, node.value, node.extra = "x", 3, 4
        gone = []
        ref = weakref.ref(node, gone.append)
        del node
        assert gone == [ref] and ref() is None
        again = compiled.Node()
        assert (again.label, again.value, again.__dict__) == (None, 0, {})


def test_subclasses(module):
    class Child(module.Node):
        def __init__(self, x, y=0):
            self.x, self.value = x, y

        def double(self):
            return super().double() + 1

    child = Child("a", y=4)
    assert (child.x, child.double(), child.name, child.next) == ("a", 9, "node 4", None)
    child.next = child
    ref = weakref.ref(child)
    del child
    gc.collect()
    assert ref() is None
    node = module.Node()
    node.next = Child(1, 7)
    assert node.next_value() == 7 and isinstance(node.next, module.Node)


def test_deep_chain_of_subclass_instances(compiled):
    class Child(compiled.Node):
        pass

    head = None
    for _ in range(100_000):
        fresh = Child()
        fresh.next = head
        head = fresh
    del head, fresh


def test_final_classes_cannot_be_subclassed(compiled):
    with pytest.raises(TypeError):
        type("Child", (compiled.Resource,), {})


def test_finalize(module):
    module.events.clear()
    module.make(1)
    kept = [module.make(n) for n in range(2, 6)]
    assert module.events == [1]
    del kept
    assert sorted(module.events) == [1, 2, 3, 4, 5]
    with pytest.raises(KeyError):
        module.make_and_fail(7)
    assert module.events[-1] == 7


def test_errors_in_finalize_are_reported(compiled, monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: seen.append(error.exc_type))
    compiled.make(-1)
    assert seen == [ValueError]
    with pytest.raises(KeyError):
        compiled.make_and_fail(-2)
    assert seen == [ValueError] * 2


def test_vectorcall(module):
    op = module.Op()
    op.name = "op"
    assert op() == ("op", 0, None) and op(4, 5) == ("op", 2, 4)
    assert op(1, b=2, c=3) == ("op", 3, ("b", "c"), (2, 3))
    assert op(*(1, 2), **{"k": 3}) == ("op", 3, ("k",), (3,))

    class Host:
        method = op

    host = Host()
    assert host.method(5) == ("op", 2, host) and Host.method is op and host.method.__self__ is host
    assert op.hits == 5
    other = module.Op()
    assert other() == (None, 0, None)


def test_forwarding(module):
    forwarder = module.Forwarder()
    forwarder.target = lambda *args, **names: (len(args), names)
    assert forwarder(1, 2) == ((2, {}), (3, {}))
    assert forwarder(1, k=2) == ((1, {"k": 2}), (2, {"k": 2}))
    forwarder.target = 3
    assert outcome(forwarder) is TypeError


def test_module_level_instances(module):
    assert module.state.count == 5 and module.state.last.value == 9
    assert [module.bump(2), module.bump(3)] == [7, 10]
    assert module.state.last.next.next.value == 9 and type(module.state.last) is module.Node
    assert type(module.state) is module.State
    module.state.count = 5
    module.state.last = module.state.last.next.next


def test_special_methods(module):
    v, w = module.vector(1.0, 2.0), module.vector(3.0, 4.0)
    assert repr(v + w) == "Vector(4.0, 6.0)" and repr(v * 2.0) == "Vector(2.0, 4.0)" and repr(
        -v) == "Vector(-1.0, -2.0)"
    assert 5 + v == ("r", 5) and outcome(lambda: v * "x") in (TypeError, str) and outcome(lambda: v + 1) is TypeError
    assert (len(v), bool(v), bool(module.Vector()), v[0], v[1], 2 in v, 5 in v) == (2, True, False, 1.0, 2.0, True,
                                                                                    False)
    assert v == module.vector(1, 2) and v != w and v != 3 and hash(w) == 3
    w[0] = 9.0
    w += 1
    assert w[0] == 109.0
    assert outcome(lambda: v < w) is TypeError


def test_attributes_may_be_added_to_a_type(compiled):
    compiled.Node.later = lambda self, x: self.value + x
    assert compiled.Node().later(3) == 3
    assert compiled.Node.double.__doc__ == "Twice the value." and compiled.Node.__doc__ == "A node."
    assert compiled.Node.__name__ == "Node" and compiled.Node.__module__ == compiled.__name__
    assert compiled.bump.__name__ == "bump" and compiled.bump.__text_signature__ == "(n, /)"
    assert pickle.loads(pickle.dumps(compiled.Node)) is compiled.Node


def test_references_balance(compiled):
    """Many operations leave the counts of what they touched, and the memory in use, where they were."""
    marker, node = object(), compiled.Node()
    op = compiled.Op()
    forwarder = compiled.Forwarder()
    forwarder.target = lambda *args, **names: None

    def work():
        node.label = marker
        node.grow(3, marker)
        node.touch(1.5)
        node.parts = None
        node.label = None
        op(marker, marker, k=marker)
        forwarder(marker, k=marker)
        outcome(node.next_value)
        outcome(node.grow, marker)
        outcome(setattr, node, "next", marker)
        compiled.make_and_fail and outcome(compiled.make_and_fail, 3)
        compiled.bump(0)
        compiled.state.last = None

    work()
    before = sys.getrefcount(marker), sys.getrefcount(None), sys.getrefcount(compiled.Node), sys.getrefcount(
        ()), sys.getrefcount(True)
    for _ in range(2000):
        work()
    after = sys.getrefcount(marker), sys.getrefcount(None), sys.getrefcount(compiled.Node), sys.getrefcount(
        ()), sys.getrefcount(True)
    assert all(abs(a - b) < 50 for a, b in zip(before, after)), (before, after)
    assert before[0] == after[0]


def test_threads(compiled):
    failures = []

    def run():
        try:
            for k in range(300):
                head = compiled.Node().grow(50, k)
                assert head.total() == 50 * 51 // 2
                compiled.make(k)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(6)]
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(old)
    assert not failures


def test_per_thread_state(tmp_path):
    both = twins(tmp_path, """
    @native
    class Mode:
        grad: bool
        depth: i64
        held: object
    mode = per_thread(Mode, grad=True)
    @native
    def enter() -> i64:
        mode.depth += 1
        mode.held = (mode.depth,)
        m = mode
        return m.depth if mode.grad else -1
    """)
    for module in (both.plain, both.native):
        assert (module.enter(), module.enter(), module.mode.depth, module.mode.held) == (1, 2, 2, (2,))
        seen = []
        for _ in range(20):
            thread = threading.Thread(target=lambda: seen.append((module.enter(), module.enter(), module.mode.depth)))
            thread.start()
            thread.join()
            assert module.enter() == 3 + len(seen) - 1
        assert seen == [(1, 2, 2)] * 20
        module.mode.grad = False
        assert module.enter() == -1
