"""Holders of values for random programs, by what their changes are: classes, modules, functions and namespaces."""

# of each holder: its source, expressions that read it, changes; {a}, {b}, ... are values
HOLDERS = {
    'function': (
        """
K = {c}
def g(v={a}, *, k={b}):
    return v
def h(v=1, *, k={b}):
    return k
def w(fn):
    @functools.wraps(fn)
    def inner(*a, **q): return fn(*a, **q)
    return inner
wg = w(g)
g.attr = {a}
""",
        [
            'g()', 'h()', 'wg()', 'g.attr', "getattr(g, 'z', 1)", 'g.__name__', 'len(g.__defaults__)',
            "h.__kwdefaults__['k']", 'wg.__wrapped__()', 'g.__doc__', 'g.__module__', 'wg.attr',
            "g.__annotations__.get('v', 0)", 'g.__code__.co_argcount'
        ],
        [
            'g.__defaults__ = ({b},)', 'h.__kwdefaults__ = dict(k={c})', "h.__kwdefaults__['k'] = {c}",
            'g.__code__ = (lambda v=0, *, k=1: (v, v)[0] if K else K).__code__', 'g.attr = {b}', 'g.z = {b}',
            "g.__name__ = 'q'", 'del g.attr', 'wg.__wrapped__ = h', 'g = h', 'wg.__closure__[0].cell_contents = h',
            "g.__doc__ = 'doc'", "g.__annotations__['v'] = {b}", 'g.__dict__.clear()', 'wg.attr = {c}',
            'g.__defaults__ = None', 'h.__code__ = (lambda v=0, *, k=1: v).__code__',
            'wg.__code__ = (lambda fn: lambda *a, **q: (fn, 5)[1])(1).__code__', 'g.__dict__ = dict(attr={c})',
            'g.__kwdefaults__ = None'
        ]),
    'method': (
        """
class A:
    def m(self): return {a}
    def call(self): return self.m()
    def __call__(self): return {b}
    def __len__(self): return 2
    def __bool__(self): return True
    def __eq__(self, o): return False
    def __hash__(self): return 3
    def __getitem__(self, k): return {a}
    def __contains__(self, k): return False
    def __iter__(self): return iter([{a}])
    def __add__(self, q): return {a}
    def __enter__(self): return {a}
    def __exit__(self, *a): return False
    def __index__(self): return 2
    def __repr__(self): return 'r'
o = A()
bound = o.m
""",
        [
            'o.m()', 'o.call()', 'o()', 'len(o)', 'bool(o)', 'o == 1', 'hash(o)', 'o[0]', '3 in o', 'list(o)[0]',
            'o + 1', 'bound()', 'operator.index(o)', 'str(o)', 'A.m(o)', 'bound.__func__(o)', '[7, 8, 9][o]', 'o != 1',
            'not o', '(o and 3)', 'next(iter(o))', "f'{{o}}'", 'list(map(lambda q: q, o))[0]', "getattr(o, 'm')()",
            'callable(o)', '1 + o', 'o.__len__()', 'A.__add__(o, 1)'
        ],
        [
            'A.m = lambda s: {b}', 'o.m = lambda: {c}', 'A.m.__code__ = (lambda self: 5).__code__',
            'A.__call__ = lambda s: {c}', 'A.__len__ = lambda s: 5', 'A.__bool__ = lambda s: False', 'del A.__bool__',
            'del A.__len__', 'A.__eq__ = lambda s, q: True', 'A.__hash__ = lambda s: 4', 'A.__hash__ = None',
            'A.__getitem__ = lambda s, k: {c}', 'A.__contains__ = lambda s, k: True', 'del A.__contains__',
            'A.__iter__ = lambda s: iter([{c}])', 'del A.__iter__', 'A.__add__ = lambda s, q: {c}',
            'A.__radd__ = lambda s, q: {c}', 'A.__index__ = lambda s: 1', "A.__str__ = lambda s: 's'",
            'A.__ne__ = lambda s, q: {c}', "A.__format__ = lambda s, q: 'form'", 'o.__len__ = lambda: 9',
            'bound = lambda: {c}', 'A.call = lambda s: {c}', 'del A.__call__', 'A.__iter__ = None',
            "o.__class__ = type('B', (A,), dict(m=lambda s: {c}))", "A.__repr__ = lambda s: 'new'"
        ]),
    'module': (
        """
class Mod(torch.nn.Module):
    t = {c}
    def __init__(self):
        super().__init__()
        self.a = {a}
        self.lst = [{a}]
        self.tab = dict(a={a})
        self.register_buffer('buf', torch.ones(1))
        self.lin = torch.nn.Identity()
        self.par = torch.nn.Parameter(torch.ones(1))
    def forward(self, x): return x
    def read(self): return self.a
m = Mod()
""",
        [
            'm.a', 'm.t', 'm.lst[0]', "m.tab['a']", 'm.training', 'len(m._modules)', 'm.read()', "getattr(m, 'z', 1)",
            'm.buf.sum().item()', 'len(list(m.children()))', "hasattr(m, 'lin')", 'm.par.requires_grad',
            'm.lin.training', 'type(m.lin).__name__', 'len(m._buffers)', 'm.buf is None', "m._buffers['buf'].shape[0]",
            'm.par.shape[0]', 'm.par.dtype.itemsize', 'len(list(m.parameters()))', 'm.__class__.__name__',
            'm.par.grad is None', 'len(m.state_dict())', 'm.buf.requires_grad', 'm(x).sum().item() > 0',
            'm.par.sum().item()', "m._parameters['par'].shape[0]"
        ],
        [
            'm.a = {b}', "m.__dict__['a'] = {b}", "object.__setattr__(m, 'a', {b})", 'vars(m).update(a={b})',
            'del m.a', 'Mod.t = {b}', 'm.t = {b}', 'm.lst[0] = {b}', 'm.lst.append(1)', "m.tab['a'] = {b}", 'm.eval()',
            'm.train()', 'm.training = False', "m.__dict__['training'] = False", "m.add_module('n', torch.nn.ReLU())",
            "m._modules['n'] = torch.nn.ReLU()", "m._modules.pop('lin', 0)", 'm.lin = torch.nn.ReLU()',
            "m._modules['lin'] = torch.nn.Tanh()", 'm.buf = torch.ones(2) * 3', 'm.buf.add_(1)',
            'm.buf.data = torch.zeros(3)', "m._buffers['buf'] = None", 'm.par.requires_grad_(False)',
            'm.par.data = torch.ones(2)', 'm.par = torch.nn.Parameter(torch.ones(3))', 'm.double()', 'm.z = {b}',
            'Mod.z = {c}', 'Mod.read = lambda s: {b}', 'm.read = lambda: {c}', 'm.forward = lambda x: -x',
            'Mod.forward = lambda s, x: -x', 'm.register_forward_hook(lambda *a: -a[2])',
            'm.register_forward_pre_hook(lambda s, a: (-a[0],))', 'm.__class__ = torch.nn.Identity', 'm.lin.eval()',
            'm.par.grad = torch.ones_like(m.par)', 'Mod.__call__ = lambda s, x: -x',
            "m.register_buffer('b2', torch.ones(1))", 'm._parameters.clear()', 'm.lin.__class__ = torch.nn.Dropout',
            'm._forward_hooks[99] = lambda *a: -a[2]', 'Mod.__getattr__ = lambda s, n: {c}', 'm.par.grad = None',
            "m.__dict__['_modules'] = {{}}", 'm.requires_grad_(False)', 'm.lin.forward = lambda x: -x'
        ]),
    'lists of modules': (
        """
ml = torch.nn.ModuleList([torch.nn.Identity(), torch.nn.ReLU()])
md = torch.nn.ModuleDict(dict(a=torch.nn.Identity()))
sq = torch.nn.Sequential(torch.nn.Identity(), torch.nn.ReLU())
pl = torch.nn.ParameterList([torch.ones(1)])
""",
        [
            'len(ml)', 'type(ml[0]).__name__', 'len(md)', "'b' in md", 'len(sq)', 'sq(x - 3).sum().item()', 'len(pl)',
            "type(md['a']).__name__", '[type(q).__name__ for q in ml][-1]', 'list(md.keys())[0]', 'pl[0].shape[0]',
            'sum(float(p.sum()) for p in pl)'
        ],
        [
            'ml.append(torch.nn.Tanh())', 'ml[0] = torch.nn.ReLU()', "md['b'] = torch.nn.ReLU()",
            "md['a'] = torch.nn.ReLU()", 'sq.append(torch.nn.Tanh())', 'sq[1] = torch.nn.Identity()',
            'pl.append(torch.ones(2))', 'del ml[0]', "md.pop('a')", 'del sq[0]', 'ml.insert(0, torch.nn.Tanh())',
            'sq.insert(0, torch.nn.Tanh())', 'md.clear()', 'pl[0] = torch.nn.Parameter(torch.ones(4))',
            "sq._modules.move_to_end('0')", "md._modules['0'] = md._modules.pop('a', None)",
            "sq._modules['0'], sq._modules['1'] = torch.nn.Tanh(), torch.nn.Tanh()"
        ]),
    'partial': (
        """
def g(*a, k={c}): return (a + (k,))[0]
p = functools.partial(g, {a})
q = functools.partial(g, k={b})
class A:
    def m(self, v, w=1): return v
    pm = functools.partialmethod(m, {a})
o = A()
""",
        [
            'p()', 'q()', 'p.args[0]', "q.keywords['k']", 'p.func.__name__', 'o.pm()', 'functools.partial(g, {b})()',
            "getattr(p, 'z', 1)"
        ],
        [
            'p = functools.partial(g, {b})', "q.keywords['k'] = {a}", 'p.__setstate__((g, ({b},), {{}}, None))',
            "p.__setstate__((len, ('abc',), {{}}, None))", 'g.__kwdefaults__ = dict(k={b})', 'A.m = lambda s, v: {c}',
            'A.pm = functools.partialmethod(A.m, {b})', 'p.z = {b}', 'q.keywords.clear()',
            'g.__code__ = (lambda *a, k: 5).__code__', 'o.pm = lambda: {c}', "p.__dict__['z'] = {c}",
            'p = lambda: {c}'
        ]),
    'weakref': (
        """
class T: pass
t = T()
t.v = {a}
u = T()
u.v = {c}
r = weakref.ref(t)
wd = weakref.WeakValueDictionary(a=t)
wk = weakref.WeakKeyDictionary()
wk[t] = {b}
ws = weakref.WeakSet([t])
px = weakref.proxy(t)
""",
        [
            'r().v', 'r() is None', 'len(wd)', "wd['a'].v", 'wk.get(t, 7)', 'len(wk)', 't in ws', 'px.v',
            "getattr(px, 'z', 1)", "'a' in wd", "wd.get('a') is None", 'len(ws)'
        ],
        [
            't.v = {b}', 't = None; gc.collect()', 'r = weakref.ref(u)', "wd['a'] = u", "wd['b'] = u", 'wk[t] = {c}',
            'wk.clear()', 'ws.clear()', 'px = weakref.proxy(u)', 'T.z = {c}', 'T.v = {c}',
            "t.__class__ = type('T2', (), {{}})", 'del t.v', 'ws.add(u)', "wd.pop('a', 0)"
        ]),
    'context': (
        """
cv = contextvars.ContextVar('cv', default={a})
cw = contextvars.ContextVar('cw')
tl = threading.local()
tl.a = {a}
""",
        [
            'cv.get()', 'cv.get(5)', 'cw.get(3)', 'cw.get()', 'tl.a', "getattr(tl, 'z', 2)", 'cv.name'
        ],
        [
            'cv.set({b})', 'cw.set({b})', 'tok = cv.set({c}); cv.reset(tok)', 'tl.a = {b}', 'tl.z = {c}', 'del tl.a',
            "cv = contextvars.ContextVar('cv', default={c})", 'tl = threading.local()', "tl.__dict__['a'] = {c}"
        ]),
    'namespaces': (
        """
ns = types.SimpleNamespace(a={a})
pm = types.ModuleType('pm')
pm.a = {a}
P = collections.namedtuple('P', 'a b', defaults=({b},))
pt = P({a})
mp = types.MappingProxyType(ns.__dict__)
cell = types.CellType({a})
""",
        [
            'ns.a', "getattr(ns, 'z', 1)", 'pm.a', "getattr(pm, 'z', 2)", 'pt.a', 'pt.b', 'P(1).b', "mp['a']",
            'len(mp)', 'cell.cell_contents', 'ns == types.SimpleNamespace(a=2)', "hasattr(pm, 'z')",
            "pt._asdict()['a']", 'pt._replace(b=2).a', 'P._fields[0]', 'pm.__name__'
        ],
        [
            'ns.a = {b}', 'ns.z = {b}', 'del ns.a', 'pm.a = {b}', 'pm.z = {b}', 'pm.__getattr__ = lambda n: {c}',
            'del pm.a', "pm.__dict__['a'] = {c}", 'pt = P({b}, {c})', 'P.__new__.__defaults__ = ({c},)',
            'cell.cell_contents = {b}', 'ns.__dict__.update(a={c})', 'P.a = property(lambda s: {c})', 'P.z = 1',
            "pm = types.ModuleType('q'); pm.a = {c}", "pm.__class__ = type('M2', (types.ModuleType,), dict(z={c}))",
            "pm.__name__ = 'new'", 'ns = types.SimpleNamespace(z={c})', 'del cell.cell_contents'
        ]),
    'iterators': (
        """
it = iter([{a}, {b}, {c}, {a}, {b}, {c}] * 4)
ct = itertools.count()
def gen():
    while True:
        yield {a}
        yield {b}
ge = gen()
cy = itertools.cycle([{a}, {c}])
""",
        [
            'next(it)', 'next(ct)', 'next(ge)', 'next(cy)', 'next(it, 9)', '[next(it), next(it)][1]'
        ],
        [
            'next(it)', 'next(ge)', 'it = iter([{c}])', 'ct = itertools.count(5)', 'ge.close()', 'ge = gen()',
            'cy = itertools.cycle([{b}])', 'next(ct)'
        ]),
    'dispatch': (
        """
@functools.singledispatch
def sd(v): return {a}
@functools.lru_cache
def lc(v): return G0
G0 = {a}
class Ab(abc.ABC): pass
class C1: pass
o = C1()
@typing.runtime_checkable
class Pr(typing.Protocol):
    def meth(self): ...
""",
        [
            'sd(1)', 'sd(o)', 'lc(1)', 'isinstance(o, Ab)', 'issubclass(C1, Ab)', 'isinstance(o, Pr)',
            'len(sd.registry)', 'isinstance(o, collections.abc.Sized)', 'isinstance(o, collections.abc.Hashable)'
        ],
        [
            'sd.register(int)(lambda v: {b})', 'sd.register(C1)(lambda v: {c})', 'G0 = {b}', 'lc.cache_clear()',
            'Ab.register(C1)', 'C1.meth = lambda s: 1', 'o.meth = lambda: 1', 'C1.__len__ = lambda s: 1',
            'C1.__hash__ = None', 'Ab.__subclasshook__ = classmethod(lambda c, d: True)'
        ]),
    'arrays': (
        """
na = np.array([{a}, {b}])
ar = array.array('d', [1, 2])
by = bytearray(b'ab')
nf = np.float64(2)
""",
        [
            'na[0].item()', 'len(na)', 'na.shape[0]', 'ar[0]', 'by[0]', 'len(by)', 'nf', 'na.dtype.itemsize',
            'float(na.real.sum()) > 2', 'float(nf)', 'na.ndim'
        ],
        [
            'na[0] = {b}', 'na = np.array([{c}, {c}, {c}])', 'ar[0] = 7', 'ar.append(1)', 'by[0] = 99', 'by.append(1)',
            'nf = np.float32(2)', 'nf = np.float64(3)', 'na = na.astype(np.complex64)',
            'na.resize((2, 1), refcheck=False)', 'na = na.reshape(1, 2)'
        ]),
    'tensor': (
        """
t = torch.ones(2)
t.note = {a}
w = torch.ones(2, requires_grad=True)
v0 = w[:1]
""",
        [
            't.note', 't.shape[0]', 't.requires_grad', 't.dtype.itemsize', 't.is_contiguous()', 't.sum().item()',
            'w.grad is None', 't.stride()[-1]', "getattr(t, 'z', 1)", 't.ndim', 'w.is_leaf', 'len(t)', 't.numel()',
            't.storage_offset()', 't._version', 'v0._base is w', 't.is_inference()'
        ],
        [
            't.note = {b}', 't.z = {c}', 't = torch.ones(3)', 't.requires_grad_()',
            't.data = torch.ones(4, dtype=torch.float64)', 't.add_(1)', 't.t_()', 't = torch.ones(2, 2).t()',
            'w.grad = torch.ones(2)', 'w.requires_grad_(False)', 't.resize_(5)', 'del t.note',
            't.set_(torch.arange(6.)[::2])', 't.unsqueeze_(0)', 't = torch.nn.Parameter(t)',
            't = torch.ones(2, dtype=torch.int8)', 'w = w.detach()', 't.as_strided_((2, 2), (1, 0))',
            "t.__dict__['z'] = {b}", 't.swapaxes_(0, -1)'
        ]),
    'builtins': (
        """
import builtins
mod = types.ModuleType('fake_mod')
mod.fn = lambda: {a}
fn = mod.fn
""",
        [
            "len('abc')", 'mod.fn()', 'fn()', 'abs(-2)', "NEW if 'NEW' in globals() else 4", 'max(1, 2)',
            'math.floor(2.5)', "getattr(mod, 'y', 3)", 'sorted([2, 1])[0]', 'isinstance(1, int)'
        ],
        [
            'len = lambda q: {b}', 'mod.fn = lambda: {b}', 'abs = lambda q: {c}', 'NEW = {c}', 'max = min',
            'math = types.SimpleNamespace(floor=lambda q: {b})', "globals().pop('len', 0)", 'mod.y = {c}',
            'sorted = reversed; sorted = lambda q: [{b}]', 'mod = types.SimpleNamespace(fn=lambda: {c})',
            'fn.__code__ = (lambda: 5).__code__', 'isinstance = lambda a, b: {c}', "globals().pop('abs', 0)"
        ]),
    'user containers': (
        """
class L(list): pass
class U(collections.UserDict): pass
class St(str): pass
class In(int):
    def __add__(self, q): return {a}
class Tu(tuple): pass
l, u, s, n, tu = L([{a}]), U(a={a}), St('ab'), In(3), Tu((1, 2))
l.extra = {a}
tu.extra = {a}
s.extra = {b}
""",
        [
            'l[0]', 'len(l)', "u['a']", "u.get('z', 2)", 'len(s)', 'n + 1', 'tu[0]', 'l.extra', 'tu.extra', 's.extra',
            "getattr(n, 'z', 1)", 'str(s)', 'len(tu)', "u.data['a']", 'l == [2]', 'n == 3', "getattr(tu, 'z', 3)"
        ],
        [
            'l[0] = {b}', 'l.append({c})', "u['a'] = {b}", "u['z'] = {b}", 'L.__getitem__ = lambda s, k: {c}',
            'L.__len__ = lambda s: 7', 'In.__add__ = lambda s, q: {c}', 'l.extra = {b}', 'tu.extra = {c}',
            's.extra = {c}', 'n.z = {b}', 'In.z = {c}', "St.__str__ = lambda s: 'long'", 'St.__len__ = lambda s: 6',
            'Tu.__getitem__ = lambda s, k: {b}', 'u.data = dict(a={c})', 'n = 3', 'tu = (1, 2)',
            'L.__eq__ = lambda s, q: {c}', 'In.__eq__ = lambda s, q: {b}', "s = 'ab'",
            "tu.__class__ = type('T3', (tuple,), dict(z={c}))", 'U.__getitem__ = lambda s, k: {c}',
            'U.__missing__ = lambda s, k: {c}', 'Tu.z = {b}', 'tu.z = {b}'
        ]),
    'arguments': (
        """
class A:
    a = {a}
class B(A):
    a = {b}
o = A()
ob = B()
arg = dict(k={a}, o=o, l=[{b}])
""",
        [
            "arg['k']", "arg['o'].a", "arg['l'][0]", 'len(arg)', "type(arg['o']).__name__", "arg.get('z', 1)",
            "isinstance(arg['o'], B)", 'list(arg)[0]', "len(arg['l'])"
        ],
        [
            "arg['k'] = {b}", "arg['o'] = ob", "arg['l'].append(1)", "arg['l'][0] = {c}", "arg['z'] = {c}",
            'o.a = {c}', 'A.a = {c}', "arg['k'] = arg.pop('k', 0)", 'arg = dict(arg, k={c})', 'o.__class__ = B',
            "arg['l'] = tuple(arg['l'])"
        ]),
}
