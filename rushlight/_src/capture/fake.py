"""Fake tensors under capture: results of a graph that has not run."""
from __future__ import annotations

from ..core.native import Tensor
from ..core.op import OPS
from .errors import Break
from .unbacked import HOLD


def needs_data(what: str, code="RB003", method=None):
    """Return a method that refuses to read the data of a fake tensor; ``method``: called on the value
    instead if it is known."""
    def refuse(self, *args, **kwargs):
        known = self.recorder.value_of(self) if method else None
        if known is None:
            raise Break(code, what)
        return getattr(known, method)(*args)
    refuse.__name__ = what
    return refuse


class Fake(Tensor):
    """A fake tensor.  ``inputs``: the graph inputs whose sizes it depends on; ``like``: the class it represents."""

    weak = False
    like = Tensor
    stands_for = None  # the Real that a number represents

    concrete = needs_data("reading elements to decide a size", "RB012")
    __int__, __float__, __complex__, __index__ = (needs_data(what, method=name) for what, name in (
        ("int()", "__int__"), ("float()", "__float__"), ("complex()", "__complex__"), ("an index", "__index__")))
    __bool__ = needs_data("bool() of a tensor", "RB002", "__bool__")
    numpy, __array__, data_ptr, untyped_storage = (needs_data(n, "RB015")
                                                   for n in ("numpy()", "__array__()", "data_ptr()",
                                                             "untyped_storage()"))
    backward, register_hook, retain_grad = (needs_data(n, "RB011")
                                            for n in ("backward()", "register_hook()", "retain_grad()"))

    def read(self):
        self.recorder.sizes_read.update(self.inputs)
        return self._rush_meta

    shape = property(lambda self: self.read().shape)
    nbytes = property(lambda self: self.read().numel * self._rush_meta.itemsize)
    requires_grad = property(lambda self: bool(self._rush_needs_grad),
                             lambda self, wanted: self.recorder.require_grad(self, wanted))
    is_leaf = property(lambda self: not self._rush_needs_grad or self.node in self.recorder.leaves)
    data = property(lambda self: OPS["detach"](self), needs_data("setting .data", "RB011"))
    grad = property(needs_data("reading .grad", "RB011"), needs_data("setting .grad", "RB011"))
    grad_fn = property(needs_data("reading .grad_fn", "RB011"))
    _version = property(needs_data("reading ._version", "RB011"))
    is_inference = needs_data("is_inference()", "RB011")
    register_post_accumulate_grad_hook, _is_view = (
        needs_data(n, "RB011") for n in ("register_post_accumulate_grad_hook()", "_is_view()"))
    storage, set_, share_memory_, is_shared, is_set_to, map_, map2_, record_stream = (
        needs_data(n, "RB015") for n in ("storage()", "set_()", "share_memory_()", "is_shared()", "is_set_to()",
                                         "map_()", "map2_()", "record_stream()"))

    def item(self):
        known = self.recorder.value_of(self)
        return self.recorder.item(self) if known is None else known.item()

    def refuse(self, error):
        """Record that the program raises the error if this holds for an element."""
        with self.recorder.below_levels():
            OPS["logical_not"](OPS["any"](self)).hold(error)

    def hold(self, error):
        """Record that the program raises the error unless this holds for all elements."""
        if self.recorder.shape_env is None or self.recorder.within_try():
            raise Break("RB002", "a check of all elements within a try")
        with self.recorder.below_levels():
            self.recorder.check(HOLD, self if not self._rush_meta.shape else OPS["all"](self), error)

    def tolist(self):
        """Return the elements as nested lists of data-dependent numbers."""
        if self.numel() > MOST_ITEMS:
            raise Break("RB003", f"tolist() of more than {MOST_ITEMS} elements")
        return [row.tolist() for row in self.unbind(0)] if self.dim() else self.item()

    def size(self, dim=None):
        self.read()
        return Tensor.size(self, dim)

    def numel(self):
        return self.read().numel

    nelement = numel

    def stride(self, dim=None):
        self.read()
        return Tensor.stride(self, dim)

    def storage_offset(self):
        return self.recorder.start_of(self.node)

    def _rush_holder(self):
        return self.recorder.holder(self)

    def is_contiguous(self, memory_format=None):
        if memory_format is not None:
            self.read()
        return Tensor.is_contiguous(self, memory_format)

    def __len__(self):
        self.read()
        return Tensor.__len__(self)

    def detach_(self):
        if self.node.op is None or self.node in self.recorder.bases or self.node in self.recorder.leaves:
            raise Break("RB011", "detach_() of a view, a leaf, or a tensor from outside")
        self._rush_replace(OPS["detach"](self))
        return self

    def __repr__(self):
        return f"Fake({self.node.name}: {self._rush_meta})"

    def __reduce_ex__(self, protocol):
        raise Break("RB001", "a tensor is copied or pickled")

    def _rush_become(self, view):
        if self.node.op is None:
            raise Break("RB011", "a tensor from outside changes its shape in place")
        if self._rush_needs_grad and not view._rush_needs_grad:
            raise Break("RB011", "a tensor with a history changes its shape in place while that is not recorded")
        self._rush_replace(view)

    def _rush_replace(self, view):
        """Become the current value of a view, after all recorded writes."""
        self.recorder.replace_viewed(self)
        self.node, self.inputs = view.node, view.inputs
        self._rush_meta, self._rush_needs_grad = view._rush_meta, view._rush_needs_grad

    __hash__ = Tensor.__hash__


MOST_ITEMS = 32  # limit of one tolist()


def as_fixed(value):
    """Return varying floats as their current values, which are assumed afterwards; also within tuples."""
    if type(value) in (tuple, list):
        return type(value)(map(as_fixed, value))
    return float(value.stands_for) if isinstance(value, Fake) and value.stands_for is not None else value


def as_hinted(value):
    """Return varying floats as their current values, also within tuples."""
    if type(value) in (tuple, list):
        return type(value)(map(as_hinted, value))
    return value.stands_for.number.hint if isinstance(value, Fake) and value.stands_for is not None else value


class Leaf:
    """A tensor made here that requires grad: the node whose memory it shares if any, the node that it was made from,
    and its position in the program."""

    def __init__(self, fake, shares, origin, place):
        self.fake, self.shares, self.origin, self.place = fake, shares, origin, place


def fakes_in(value):
    """Return the Fakes within nested tuples and lists, in order."""
    if isinstance(value, Fake):
        yield value
    elif type(value) in (list, tuple):
        for item in value:
            yield from fakes_in(item)
