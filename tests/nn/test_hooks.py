"""Hooks of modules, all kinds, beside torch: what is called, in which order, with what, and what its answer changes."""
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402


def plain(value):
    """Values as both libraries have them in common."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain, value)) if type(value) in (list, tuple) else [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [round(v, 5) for v in value.detach().reshape(-1).tolist()] if hasattr(value, "detach") else value


class Log(list):
    """What hooks saw."""

    def hook(self, name, answer=None):
        def run(module, *seen):
            self.append((name, type(module).__name__, plain(seen)))
            return answer(*seen) if answer else None
        return run


def affine(t):
    class Affine(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = t.nn.Parameter(t.tensor([2.0, 3.0]))

        def forward(self, x, shift=0.0, fail=False):
            if fail:
                raise KeyError("asked for")
            return x * self.weight + shift
    return Affine()


def point(t):
    return t.tensor([1.0, -1.0], requires_grad=True)


def forward_hooks(t, log):
    m = affine(t)
    m.register_forward_pre_hook(log.hook("pre"))
    m.register_forward_pre_hook(log.hook("first", lambda args: args[0] * 2), prepend=True)
    m.register_forward_pre_hook(log.hook("named", lambda args, kwargs: (args, {"shift": 5.0})), with_kwargs=True)
    m.register_forward_hook(log.hook("after", lambda args, out: out + 1))
    m.register_forward_hook(log.hook("before that"), prepend=True)
    m.register_forward_hook(log.hook("all", lambda args, kwargs, out: out * 2), with_kwargs=True)
    return m(point(t), shift=1.0)


def removed_hooks(t, log):
    m = affine(t)
    handles = [m.register_forward_pre_hook(log.hook("a")), m.register_forward_hook(log.hook("b"), with_kwargs=True),
               m.register_full_backward_hook(log.hook("c"))]
    with handles[0]:
        m(point(t))
    for h in handles[1:]:
        h.remove()
    return m(point(t)), len(m._forward_hooks), len(m._forward_hooks_with_kwargs), len(m._backward_hooks)


def wrong_answer_of_a_pre_hook(t, log):
    m = affine(t)
    m.register_forward_pre_hook(lambda module, args, kwargs: args, with_kwargs=True)
    m(point(t))


def always_called(t, log):
    m = affine(t)
    m.register_forward_hook(log.hook("never"))
    m.register_forward_hook(log.hook("always"), always_call=True)
    m.register_forward_hook(log.hook("always with names"), always_call=True, with_kwargs=True)
    m(point(t), fail=True)


def always_called_after_a_hook_failed(t, log):
    m = affine(t)
    m.register_forward_hook(log.hook("always before"), always_call=True)
    m.register_forward_hook(lambda module, args, out: 1 / 0)
    m.register_forward_hook(log.hook("always after"), always_call=True)
    m(point(t))


def backward_hooks(t, log):
    m, x = affine(t), point(t)
    m.register_full_backward_hook(log.hook("back"))
    m.register_full_backward_hook(log.hook("changes", lambda gi, go: (gi[0] * 10,)), prepend=True)
    m.register_full_backward_pre_hook(log.hook("pre", lambda go: (go[0] + 1,)))
    (m(x, t.tensor([1.0, 1.0])) * t.tensor([1.0, 2.0])).sum().backward()
    return x.grad, m.weight.grad


def backward_hooks_of_data(t, log):
    m = affine(t)
    m.register_full_backward_hook(log.hook("back"))
    m(t.ones(2), t.ones(2)).sum().backward()
    return m.weight.grad


def backward_hooks_of_names_only(t, log):
    m, x = affine(t), point(t)
    m.register_full_backward_hook(log.hook("back"))
    m(x=x).sum().backward()
    return x.grad


def backward_hook_that_answers_too_much(t, log):
    m = affine(t)
    m.register_full_backward_hook(lambda module, gi, go: (gi[0], gi[0]))
    m(point(t)).sum().backward()


def backward_hook_that_answers_for_data(t, log):
    m = affine(t)
    m.register_full_backward_hook(lambda module, gi, go: (go[0],))
    m(t.ones(2)).sum().backward()


def backward_pre_hook_that_answers_too_much(t, log):
    m = affine(t)
    m.register_full_backward_pre_hook(lambda module, go: (go[0], go[0]))
    m(point(t)).sum().backward()


def both_kinds_of_backward_hooks(t, log):
    m = affine(t)
    m.register_full_backward_hook(log.hook("full"))
    m.register_backward_hook(log.hook("old"))


def tuples(t, log):
    class Pair(t.nn.Module):
        def forward(self, x, number, y):
            return x * y, number, y.sum()
    m, x, y = Pair(), point(t), point(t)
    m.register_full_backward_hook(log.hook("back"))
    a, _, b = m(x, 3, y)
    (a.sum() + b).backward()
    return x.grad, y.grad


def unused_results(t, log):
    class Pair(t.nn.Module):
        def forward(self, x):
            return x * 2, x * 3
    m, x = Pair(), point(t)
    m.register_full_backward_hook(log.hook("back"))
    m(x)[0].sum().backward()
    return x.grad


def whole_numbers_among_arguments(t, log):
    class Rows(t.nn.Module):
        def forward(self, x, at):
            return x[at]
    m, x = Rows(), point(t)
    m.register_full_backward_hook(lambda module, gi, go: log.append((plain(gi[0]), plain(go))))
    m(x, t.tensor([1, 1])).sum().backward()
    return x.grad


def state_dict_hooks(t, log):
    m = t.nn.Sequential(affine(t))
    m.register_state_dict_pre_hook(log.hook("pre"))
    m[0].register_state_dict_pre_hook(log.hook("inner pre"))

    def post(module, state, prefix, local):
        log.append(("post", sorted(state), prefix, local))
        state[prefix + "more"] = 1
    m[0].register_state_dict_post_hook(post)
    m._register_state_dict_hook(lambda module, state, prefix, local: {k.upper(): v for k, v in state.items()})
    return sorted(m.state_dict(prefix="p."))


def state_dict_post_hook_that_answers(t, log):
    m = affine(t)
    m.register_state_dict_post_hook(lambda module, state, prefix, local: {})
    m.state_dict()


def load_hooks(t, log):
    m = t.nn.Sequential(affine(t))
    state = m.state_dict()

    def pre(module, state, prefix, local, strict, missing, unexpected, errors):
        log.append(("pre", sorted(state), prefix, local, strict, list(missing), list(unexpected), list(errors)))
        state[prefix + "weight"] = state[prefix + "weight"] * 2
        state.pop("old", None)

    def post(module, keys):
        log.append(("post", type(module).__name__, list(keys.missing_keys), list(keys.unexpected_keys)))
        keys.unexpected_keys.clear()
    m[0].register_load_state_dict_pre_hook(pre)
    m.register_load_state_dict_post_hook(post)
    state["0.other"] = t.ones(1)
    m.load_state_dict(state)
    return m[0].weight


def load_post_hook_that_answers(t, log):
    m = affine(t)
    m.register_load_state_dict_post_hook(lambda module, keys: 1)
    m.load_state_dict(m.state_dict())


def global_hooks(t, log):
    from importlib import import_module
    place = import_module(f"{t.__name__}.nn.modules.module")
    handles = [place.register_module_forward_pre_hook(log.hook("pre")),
               place.register_module_forward_hook(log.hook("after", lambda args, out: out + 1)),
               place.register_module_forward_hook(log.hook("named"), with_kwargs=True),
               place.register_module_full_backward_hook(log.hook("back")),
               place.register_module_full_backward_pre_hook(log.hook("back pre"))]
    try:
        m, x = t.nn.Sequential(affine(t)), point(t)
        m[0].register_forward_hook(log.hook("own"))
        m(x).sum().backward()
    finally:
        for h in handles:
            h.remove()
    m(x)
    return x.grad


def global_hooks_always_called(t, log):
    from importlib import import_module
    handle = import_module(f"{t.__name__}.nn.modules.module").register_module_forward_hook(log.hook("always"),
                                                                                           always_call=True)
    try:
        affine(t)(point(t), fail=True)
    finally:
        handle.remove()


def registration_hooks(t, log):
    from importlib import import_module
    place = import_module(f"{t.__name__}.nn.modules.module")
    twice = lambda module, name, value: log.append(("parameter", name,
                                                    plain(value))) or (t.nn.Parameter(value.detach() * 2)
                                                                       if value is not None else None)
    handles = [place.register_module_parameter_registration_hook(twice),
               place.register_module_buffer_registration_hook(lambda module, name, value: log.append(("buffer", name,
                                                                                                      plain(value)))),
               place.register_module_module_registration_hook(
                   lambda module, name, value: log.append(("module", name, type(value).__name__)))]
    try:
        m = t.nn.Module()
        m.a = t.nn.Parameter(t.ones(2))
        m.register_parameter("b", t.nn.Parameter(t.ones(1)))
        m.register_buffer("c", t.zeros(1))
        m.c = t.ones(1)
        m.d = t.nn.Identity()
        m.add_module("e", t.nn.Identity())
        m.d = t.nn.ReLU()
    finally:
        for h in handles:
            h.remove()
    return m.a, m.b, list(m._modules)


SCENES = [v for v in list(globals().values()) if callable(v) and getattr(v, "__code__", None)
          and v.__code__.co_varnames[:2] == ("t", "log")]


@pytest.mark.parametrize("scene", SCENES, ids=lambda s: s.__name__)
def test_as_in_torch(scene):
    seen = []
    for library in (rushlight, torch):
        log = Log()
        try:
            found = plain(scene(library, log))
        except Exception as error:  # noqa: BLE001 - both must fail alike
            found = type(error).__name__
        seen.append((found, list(log)))
    ours, theirs = seen
    assert ours[0] == theirs[0]
    assert ours[1] == theirs[1]


def test_a_hook_with_attributes_of_its_own_is_called_itself():
    class Hook:
        def __init__(self):
            self.module, self.hook, self.seen = rushlight.nn.ReLU(), None, []

        def __call__(self, *args):
            self.seen.append(args[0])

    m, hook = rushlight.nn.Linear(2, 2), Hook()
    m.register_load_state_dict_pre_hook(hook)
    m.load_state_dict(m.state_dict())
    assert hook.seen == [m]
