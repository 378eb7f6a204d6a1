"""Holders of values for random programs, by what their changes are: objects and containers."""

# of each holder: its source, expressions that read it, changes; {a}, {b}, ... are values
HOLDERS = {
    'global': (
        """
G = {a}
""",
        [
            'G', "globals()['G']", "globals().get('G', 9)"
        ],
        [
            'G = {b}', "globals()['G'] = {b}", "globals().pop('G', None)", 'globals().update(G={b})'
        ]),
    'closure': (
        """
def make():
    c = {a}
    def read():
        return c
    def put(v):
        nonlocal c
        c = v
    def drop():
        nonlocal c
        del c
    return read, put, drop
read, put, drop = make()
other = make()
""",
        [
            'read()', 'read.__closure__[0].cell_contents'
        ],
        [
            'put({b})', 'read.__closure__[0].cell_contents = {b}', 'read = lambda: {b}', 'drop()', 'other[1]({b})',
            'read.__code__ = (lambda c: (lambda: (c, 1)[1]))(1).__code__', 'read = other[0]'
        ]),
    'object': (
        """
class A:
    t = {a}
class B:
    t = {b}
o = A()
o.a = {a}
""",
        [
            'o.a', 'o.t', "getattr(o, 'z', 8)", 'A.t', 'type(o).t', "o.__dict__.get('a')", "vars(o)['a']",
            "hasattr(o, 'z')", 'len(o.__dict__)', 'o.__class__.__name__', "getattr(o, 'at'[0])",
            "operator.attrgetter('a')(o)", "'z' in vars(o)", 'list(o.__dict__)[-1]', "A.__dict__.get('z', 3)",
            'isinstance(o, A)'
        ],
        [
            'o.a = {b}', 'o.t = {b}', 'A.t = {b}', 'o.z = {b}', 'A.z = {b}', 'del o.a', 'o.__class__ = B',
            "o.__dict__['a'] = {b}", 'o.__dict__ = dict(a={b})', 'o.__dict__.clear()', 'o = B()',
            'A.__getattr__ = lambda s, n: {b}', 'A.__getattribute__ = lambda s, n: {b}',
            'A.t = property(lambda s: {b})', 'A.a = property(lambda s: {b}, lambda s, v: None)', "A.__name__ = 'Q'",
            'B.__instancecheck__ = 1', "object.__setattr__(o, 'a', {b})", 'vars(o).update(z={b}, a={c})',
            'o.__dict__ |= dict(q=1)'
        ]),
    'bases': (
        """
class P:
    a = {a}
class Q:
    a = {b}
    z = {c}
class M(P):
    pass
class N(M):
    def read(self):
        return super().a
o = N()
""",
        [
            'o.a', 'N.a', 'o.read()', 'super(N, o).a', "getattr(N, 'z', 4)", 'issubclass(N, Q)', 'isinstance(o, P)',
            'len(N.__mro__)', 'N.__bases__[0].a', 'N.mro()[1].__name__'
        ],
        [
            'P.a = {b}', 'M.a = {b}', 'N.a = {c}', 'M.__bases__ = (Q,)', 'N.__bases__ = (Q, M)', 'N.z = {b}',
            'o.a = {c}', 'del P.a', 'P.a = property(lambda s: {c})', 'N.read = lambda s: {b}', 'M.__bases__ = (P, Q)'
        ]),
    'slots': (
        """
class S:
    __slots__ = ('a', 'b')
    def __getattr__(self, n):
        if n == 'b': return {c}
        raise AttributeError(n)
o = S()
o.a = {a}
""",
        [
            'o.a', 'o.b', "getattr(o, 'z', 1)", "hasattr(o, 'b')", 'S.a.__get__(o)'
        ],
        [
            'o.a = {b}', 'o.b = {b}', 'del o.a', 'S.a.__set__(o, {b})', 'S.z = {b}',
            'S.__getattr__ = lambda s, n: {b}', 'del S.__getattr__', 'S.b = {c}'
        ]),
    'dict': (
        """
d = {{'a': {a}, 1: {b}, 'c': {c}}}
e = d
""",
        [
            "d['a']", "d.get('a', 7)", "d.get('z', 7)", 'len(d)', 'list(d)[0]', 'list(d.values())[-1]',
            'next(iter(d))', "'z' in d", 'd[1]', 'd.get(True)', 'tuple(d.items())[0][1]', '[*d][-1]',
            'list(d.keys())[1]', 'd == dict(a=2)', 'd is e', "(d | dict(q=1))['a']", "dict(d)['c']",
            'sorted(map(str, d))[0]', "{{**d}}['a']", 'list(reversed(d))[0]', "d.keys() & {{'a', 'z'}} == {{'a'}}",
            'bool(d)'
        ],
        [
            "d['a'] = {b}", "d['z'] = {b}", "d.pop('a', 0)", 'd.clear()', 'd = dict(a={b})', 'd[True] = {c}',
            "d['a'] = d.pop('a', 0)", 'd.pop(1, 0); d[True] = {b}', 'd.update(a={b}, z={c})', 'd.popitem()',
            'd |= dict(a={c})', 'e = dict(d)', "d.setdefault('z', {b})", 'd.pop(1, 0); d[1.0] = {b}',
            'd = collections.OrderedDict(d)', 'd = types.MappingProxyType(d)'
        ]),
    'nested': (
        """
d = {{'a': [{a}, ({b}, {{'q': {c}}})], 'o': [[{a}]]}}
""",
        [
            "d['a'][0]", "d['a'][1][0]", "d['a'][1][1]['q']", "d['o'][0][0]", "len(d['a'])", "len(d['o'][0])",
            'sum(len(v) for v in d.values())', '[len(v) for k, v in d.items()][1]'
        ],
        [
            "d['a'][0] = {b}", "d['a'][1][1]['q'] = {b}", "d['o'][0].append({b})", "d['o'].append(1)",
            "d['o'][0][0] = {b}", "d['a'][1] = ({c}, dict(q=1))", "d['a'].insert(0, {c})", "d['a'][1][1].clear()",
            "d['o'] = [[{c}]]"
        ]),
    'ordered': (
        """
d = collections.OrderedDict(a={a}, b={b}, c={c})
""",
        [
            'next(iter(d))', 'list(d.values())[0]', "d['a']", 'list(d.items())[-1][1]', 'next(reversed(d))', 'len(d)'
        ],
        [
            "d.move_to_end('a')", "d['a'] = {b}", 'd.popitem(last=False)', "d['a'] = d.pop('a', 0)", 'd.clear()',
            "d['z'] = {c}", "d.move_to_end('c', last=False)"
        ]),
    'defaultdict': (
        """
d = collections.defaultdict(lambda: {a})
d['q'] = {c}
""",
        [
            "d['k']", "d['q']", "d.get('k', 5)", 'len(d)', "'k' in d", 'd.default_factory()', "(d['k'], len(d))[1]"
        ],
        [
            'd.default_factory = lambda: {b}', 'd.default_factory = None', "d['k'] = {b}", "d.pop('k', 0)",
            'd.clear()', 'd = collections.defaultdict(list, q={b})', "d['q'] = {b}"
        ]),
    'missing': (
        """
class D(dict):
    def __missing__(self, k): return {a}
d = D(q={c})
""",
        [
            "d['k']", "d['q']", "d.get('k', 5)", 'len(d)', "'k' in d"
        ],
        [
            'D.__missing__ = lambda s, k: {b}', 'del D.__missing__', "d['k'] = {b}", "d.pop('q', 0)",
            'D.__getitem__ = lambda s, k: {b}', 'D.get = lambda s, k, e: {b}', 'D.__len__ = lambda s: 5',
            'D.__contains__ = lambda s, k: True', "dict.__setitem__(d, 'k', {b})", 'd.attr = {b}'
        ]),
    'counter': (
        """
d = collections.Counter('aab')
""",
        [
            "d['a']", "d['z']", 'd.most_common(1)[0][0]', 'sum(d.values())', 'd.total()', "(+d)['a']"
        ],
        [
            "d['a'] += 2", "d.update('bbbb')", "del d['a']", "d['z'] = {b}", "d.subtract('a')"
        ]),
    'chain': (
        """
p, q = dict(a={a}), dict(a={b}, z={c})
d = collections.ChainMap(p, q)
""",
        [
            "d['a']", "d['z']", 'len(d)', "d.get('y', 3)", "d.maps[0].get('a')"
        ],
        [
            "p['a'] = {c}", 'p.clear()', "q['z'] = {a}", 'd.maps.reverse()', "p['z'] = {b}", 'd.maps[0] = dict(a={c})',
            "q['y'] = {a}"
        ]),
    'list': (
        """
l = [{a}, {b}, {c}]
""",
        [
            'l[0]', 'l[-1]', 'len(l)', 'l[1:][0]', 'l.index({b})', 'l.count({a})', '{b} in l', '[*l][0]',
            'tuple(l)[1]', 'max(len(str(i)) for i in l)', 'l == [{a}, {b}, {c}]', '(lambda q, *r: q)(*l)',
            "list(zip(l, 'ab'))[1][0]", 'list(enumerate(l))[-1][1]', 'bool(l)'
        ],
        [
            'l[0] = {c}', 'l.append({a})', 'l.pop()', 'l.reverse()', 'l.insert(0, {c})', 'l = [{c}]', 'l.clear()',
            'l[:] = [{b}] * 3', 'del l[0]', 'l *= 2', 'l = tuple(l)'
        ]),
    'set': (
        """
s = {{1, 'a'}}
z = frozenset({{2}})
""",
        [
            'len(s)', "'b' in s", '1 in s', "s == {{1, 'a'}}", "s <= {{1, 'a', 'b'}}", "bool(s & {{'b', 1}})",
            'sorted(map(str, s))[0]', 'len(s | z)', 'z.isdisjoint(s)', "type([i for i in s if i != 'a'][0]).__name__"
        ],
        [
            "s.add('b')", 's.discard(1)', 's.discard(1); s.add(True)', 's.clear()', 's = {{3}}', 's.add(2)',
            'z = frozenset({{True}})', 's |= {{5}}', 's.discard(1); s.add(1.0)'
        ]),
    'deque': (
        """
q = collections.deque([{a}, {b}], maxlen=3)
""",
        [
            'q[0]', 'q[-1]', 'len(q)', 'list(q)[0]', '{c} in q', 'q.maxlen'
        ],
        [
            'q.append({c})', 'q.rotate()', 'q.popleft()', 'q.appendleft({c})', 'q[0] = {c}',
            'q = collections.deque([{c}], maxlen=2)', 'q.clear()'
        ]),
    'dataclass': (
        """
@dataclasses.dataclass
class D:
    a: int = {a}
    b: list = dataclasses.field(default_factory=lambda: [{b}])
@dataclasses.dataclass(frozen=True)
class F:
    a: object
    def __post_init__(self):
        object.__setattr__(self, 'twice', self.a)
o, f0 = D(), F({a})
""",
        [
            'o.a', 'o.b[0]', 'D.a', 'D().a', 'D().b[0]', "dataclasses.asdict(o)['a']", 'len(dataclasses.fields(o))',
            'f0.a', 'f0.twice', 'F(3).a', 'o == D()', 'dataclasses.replace(o, a=1).b[0]', 'dataclasses.astuple(o)[0]',
            'repr(o)[-3:]', "getattr(o, 'z', 2)", 'dataclasses.fields(D)[0].default'
        ],
        [
            'o.a = {b}', 'D.a = {c}', 'o.b.append({c})', 'o.b[0] = {c}', "object.__setattr__(f0, 'a', {b})",
            "f0.__dict__['twice'] = {b}", 'f0 = F({c})', 'D.__init__ = lambda s: s.__dict__.update(a={c}, b=[{c}])',
            'D.__init__.__defaults__ = ({c},) + D.__init__.__defaults__[1:]', 'del o.a',
            'F.__post_init__ = lambda s: None', 'D.__eq__ = lambda s, q: {c}', "D.__repr__ = lambda s: 'abc'",
            'o.__class__ = F', "D.__dataclass_fields__['a'].default = {c}", "D.__dataclass_fields__.pop('b', 0)",
            'o = D({c})'
        ]),
    'enum': (
        """
class E(enum.Enum):
    A = 1
    B = 2
    def __str__(self): return 'e'
class I(enum.IntEnum):
    A = 1
    B = 2
class Fl(enum.Flag):
    A = 1
    B = 2
cur, num, fl = E.A, I.A, Fl.A
""",
        [
            'cur.value', 'cur.name', 'num', 'num + 1', 'cur is E.A', 'cur == E.A', "E['A'].value", 'E(1).value',
            'len(E)', '[m.value for m in E][0]', 'str(cur)', 'num == 1', 'bool(fl & Fl.A)', 'fl.value',
            "getattr(cur, 'z', 1)", '{{E.A: 1, E.B: 2}}[cur]', 'E.A._value_', 'cur in (E.B,)'
        ],
        [
            'cur = E.B', 'num = I.B', 'num = 1', 'E.A._value_ = {b}', "E.__str__ = lambda s: 'long'", 'E.A.z = {b}',
            'E.z = property(lambda s: {b})', 'fl = Fl.B', 'fl = Fl.A | Fl.B', "E._member_map_['A'] = E.B",
            'E._value2member_map_[1] = E.B', 'cur = num', "E.A._name_ = 'Q'", 'num = True'
        ]),
    'property': (
        """
K = {c}
class A:
    def __init__(self): self._v = {a}
    @property
    def p(self): return self._v
    @functools.cached_property
    def c(self): return self._v
    @staticmethod
    def s(): return K
    @classmethod
    def k(cls): return cls.n
    n = {b}
    @property
    def r(self): return K
o = A()
""",
        [
            'o.p', 'o.c', 'o.s()', 'A.s()', 'o.k()', 'A.k()', 'o.r', 'A.p.fget(o)', 'o.k.__self__.n'
        ],
        [
            'o._v = {b}', 'K = {b}', 'A.p = property(lambda s: {c})', 'A.n = {c}', 'o.c = {b}',
            "o.__dict__.pop('c', 0)", 'A.s = staticmethod(lambda: {b})', 'A.k = classmethod(lambda c: {b})',
            'o.n = {b}', 'o.s = lambda: {b}', 'A.p = A.r', 'A.p.fget.__code__ = (lambda self: 5).__code__',
            'A.c = {b}', 'A.k.__func__.__code__ = (lambda cls: 6).__code__', 'A.p = {b}', 'A.__init__ = None',
            'o = A()', 'type(o).c.func = lambda s: {b}'
        ]),
    'descriptor': (
        """
class N:
    def __get__(self, o, t): return self.v
class D:
    def __init__(self, v): self.v = v
    def __get__(self, o, t): return self.v if o is None else o.__dict__.get('d', self.v)
    def __set__(self, o, v): o.__dict__['d'] = v
class A:
    n = N()
    n.v = {a}
    d = D({b})
o = A()
""",
        [
            'o.n', 'A.n', 'o.d', 'A.d', "A.__dict__['n'].v"
        ],
        [
            "A.__dict__['n'].v = {b}", "A.__dict__['d'].v = {c}", 'o.d = {c}', 'o.n = {c}', "o.__dict__['n'] = {c}",
            'N.__set__ = lambda *a: None', 'N.__get__ = lambda *a: {c}', 'del D.__set__', 'A.n = D({c})', 'A.d = {c}',
            'N.v = {c}', 'D.__get__ = lambda *a: {a}', 'del N.__get__', "A.__dict__['d'].__class__ = N",
            'o.__dict__.clear()'
        ]),
    'getattr': (
        """
class A:
    def __init__(self): self.table = dict(a={a})
    def __getattr__(self, n):
        try: return self.table[n]
        except KeyError: raise AttributeError(n) from None
class G:
    v = {a}
    def __getattribute__(self, n): return object.__getattribute__(self, {{'a': 'v'}}.get(n, n))
o, g0 = A(), G()
""",
        [
            'o.a', "getattr(o, 'z', 1)", "hasattr(o, 'z')", 'g0.a', 'g0.v', "getattr(g0, 'z', 1)"
        ],
        [
            "o.table['a'] = {b}", "o.table['z'] = {b}", 'o.a = {c}', 'o.table.clear()', 'A.a = {b}',
            'A.__getattr__ = lambda s, n: {c}', 'del A.__getattr__', 'g0.v = {b}', 'G.v = {c}',
            'G.__getattribute__ = object.__getattribute__', 'G.z = {c}', 'o.table = {{}}', 'g0.a = {c}', 'A.z = {c}',
            'G.__getattr__ = lambda s, n: {c}', 'o.__class__ = G'
        ]),
    'meta': (
        """
class M(type):
    m = {a}
    def __getattr__(cls, n):
        if n == 'z': return {b}
        raise AttributeError(n)
    def __call__(cls, *a): return super().__call__()
    def __len__(cls): return 2
    def __instancecheck__(cls, o): return False
class A(metaclass=M):
    pass
o = A()
""",
        [
            'A.m', 'A.z', 'len(A)', 'isinstance(3, A)', 'A().__class__.__name__', "getattr(A, 'y', 1)",
            "getattr(o, 'm', 2)"
        ],
        [
            'M.m = {b}', 'A.m = {c}', 'A.z = {c}', 'M.z = {c}', 'M.__getattr__ = lambda c, n: {c}',
            'M.__len__ = lambda c: 5', 'M.__instancecheck__ = lambda c, o: True', 'M.__call__ = lambda c: 3',
            'M.m = property(lambda c: {c})', 'A.__len__ = lambda c: 9', 'M.__instancecheck__ = type.__instancecheck__',
            'M.y = {b}', 'A.y = {b}', 'del M.__getattr__'
        ]),
}
