"""The graph as users see it: nodes and what they keep, the order of hooks, gradients that do not arrive, `.grad`
written and deleted."""
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def plain(value):
    """What both libraries' results have in common: tensors as lists, nodes as their names."""
    if hasattr(value, "next_functions"):
        return value.name().removeprefix("torch::autograd::")
    if hasattr(value, "detach"):
        return str(value.dtype), value.detach().tolist()
    return tuple(map(plain, value)) if isinstance(value, (list, tuple)) else value


def half(t):
    """A function that passes no gradient on to its second argument."""
    class Half(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.note = "kept"
            ctx.save_for_backward(x, None)
            return x + y, x * y

        @staticmethod
        def backward(ctx, a, b):
            return a, None

    return Half


def copying(t, log, materialize=True):
    class Copy(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            log.append(g)
            return g

    return Copy


def leaf(t, *shape):
    return t.ones(*(shape or (2,)), requires_grad=True)


def a_function_gets_zeros_where_no_gradient_arrives(t):
    log, x, y = [], leaf(t), leaf(t)
    z = copying(t, log).apply(y)
    z.register_hook(log.append)
    y.register_hook(log.append)
    half(t).apply(x, z)[0].sum().backward()
    return log, x.grad, y.grad


def a_function_gets_none_where_it_wants_no_zeros(t):
    log, x, y = [], leaf(t), leaf(t)
    y.register_post_accumulate_grad_hook(lambda leaf: log.append("after"))
    half(t).apply(x, copying(t, log, False).apply(y))[0].sum().backward()
    return log, x.grad, y.grad


def hooks_hear_of_gradients_that_do_not_arrive(t):
    log, x, y = [], leaf(t), leaf(t)
    z = y.exp()
    z.register_hook(log.append)
    z.grad_fn.register_hook(lambda given, got: log.extend([given, got]))
    half(t).apply(x, z)[0].sum().backward()
    return log, y.grad


def hooks_of_a_leaf_act_on_what_grad_returns(t):
    x = leaf(t)
    x.register_hook(lambda g: g * 3)
    return t.autograd.grad((x * 2).sum(), x)


def hooks_of_a_leaf_run_in_order(t):
    log, x = [], leaf(t)
    y = x * 1
    node = y.grad_fn.next_functions[0][0]
    node.register_prehook(lambda got: (log.append(got), (got[0] * 5,))[1])
    node.register_hook(lambda given, got: log.extend([given, got, x.grad]))
    x.register_hook(lambda g: (log.append(g), g * 3)[1])
    x.register_post_accumulate_grad_hook(lambda leaf: log.append(leaf.grad))
    (y * 2).sum().backward(inputs=[x])
    return log, x.grad, node.variable is x


def hooks_of_a_node_do_not_act_on_what_is_only_captured(t):
    x = leaf(t)
    y = x * 1
    y.grad_fn.next_functions[0][0].register_prehook(lambda got: (got[0] * 5,))
    return t.autograd.grad((y * 2).sum(), x)


def a_retained_gradient_is_what_hooks_of_tensors_leave(t):
    x = leaf(t)
    y = x * 1
    y.retain_grad()
    y.register_hook(lambda g: g * 3)
    y.grad_fn.register_prehook(lambda got: (got[0] * 5,))
    (y * 2).sum().backward()
    return y.grad, x.grad


def a_retained_gradient_is_that_of_the_value_written_last(t):
    x = leaf(t)
    y = x * 2
    z = y.exp()
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    y.mul_(3)
    y.register_hook(lambda g: g * 5)
    (y + z.detach()).sum().backward()
    return x.grad, y.grad


def nodes_keep_notes_and_are_one_object(t):
    y = leaf(t) * 2
    y.grad_fn.metadata["a"] = 1
    return y.grad_fn.metadata, y.grad_fn is y.grad_fn, y.grad_fn.next_functions[0], hasattr(
        y.grad_fn, "variable"), isinstance(y.grad_fn, t.autograd.graph.Node)


def a_node_gives_what_it_keeps(t):
    x = leaf(t, 2, 3)
    y, z, s = x.exp(), x * x, x.sum((1,), True)
    return (y.grad_fn._saved_result, y.grad_fn._saved_result.grad_fn is y.grad_fn, z.grad_fn._saved_self is x,
            z.grad_fn._saved_other, s.grad_fn._saved_keepdim)


def what_a_node_keeps_is_gone_after_the_backward_pass(t):
    x = leaf(t)
    y = x.exp()
    y.sum().backward()
    return y.grad_fn._saved_result


def what_a_node_keeps_was_written(t):
    x = leaf(t) * 1
    y = x.sin()
    x.add_(1)
    return y.grad_fn._saved_self


def a_node_is_called(t):
    y = leaf(t).exp()
    return y.grad_fn(t.ones(2)), len(y.grad_fn.next_functions)


def a_node_is_called_without_gradients(t):
    return leaf(t).exp().grad_fn()


def a_saved_tensor_gets_hooks(t):
    x = leaf(t)
    y = x * x
    y.grad_fn._raw_saved_self.register_hooks(lambda kept: kept * 2, lambda kept: kept / 4)
    y.sum().backward()
    return x.grad


def a_saved_tensor_gets_hooks_twice(t):
    y = leaf(t).exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda kept: kept, lambda kept: kept)
    y.grad_fn._raw_saved_result.register_hooks(lambda kept: kept, lambda kept: kept)


def saved_tensors_of_a_function_get_hooks(t):
    x = leaf(t)
    node = half(t).apply(x, x)[0].grad_fn
    node._raw_saved_tensors[0].register_hooks(lambda kept: 7, lambda number: t.full((2,), float(number)))
    return node.saved_tensors, node.note, node.needs_input_grad, [s.data for s in node._raw_saved_tensors]


def an_absent_saved_tensor_gets_hooks(t):
    x = leaf(t)
    half(t).apply(x, x)[0].grad_fn._raw_saved_tensors[1].register_hooks(lambda kept: 7, lambda number: number)


def gradients_for_a_generator(t):
    module = t.nn.Linear(2, 1)
    with t.no_grad():
        module.weight.fill_(1)
    return t.autograd.grad(module(t.ones(1, 2)).sum(),
                           module.parameters()), t.autograd.grad((module.bias * n for n in (1, 2)), (module.bias,))


def gradients_for_a_number(t):
    return t.autograd.grad(leaf(t).sum(), [3])


def gradients_for_nothing(t):
    return t.autograd.grad(leaf(t).sum(), [])


def gradients_of_an_edge(t):
    x = leaf(t)
    y = x.sum()
    edge = t.autograd.graph.get_gradient_edge(y)
    del y
    return t.autograd.grad(edge, x)


def a_weight_of_another_dtype(t):
    x, v = leaf(t, 3, 3), t.ones((), dtype=t.float64).expand(3)
    y = x.double().diagonal()
    return t.autograd.grad(y, x, v.float(), retain_graph=True), t.autograd.grad(x.diagonal(), x, v)


def gradients_are_written_and_deleted(t):
    x = leaf(t)
    x._grad = t.ones(2)
    before = x.grad
    del x.grad
    return before, x.grad, x._grad


def a_gradient_of_another_size(t):
    leaf(t).grad = t.ones(3)


def a_gradient_of_another_dtype(t):
    leaf(t).grad = t.ones(2).double()


def a_gradient_of_itself(t):
    x = leaf(t)
    x.grad = x


def a_gradient_that_is_no_tensor(t):
    leaf(t).grad = 3


def what_keeps_nothing_runs_twice(t):
    x = leaf(t)
    for y in ((x + 1).sum(), x.mean(), x.reshape(2, 1).expand(2, 3).sum(), t.cat([x, x]).sum(), x[0]):
        y.backward()
        y.backward()
    return x.grad


def what_keeps_something_runs_once(t):
    y = leaf(t).exp().sum()
    y.backward()
    y.backward()


def what_can_be_differentiated_once(t):
    class Square(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @t.autograd.function.once_differentiable
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x, weight = leaf(t), leaf(t)
    g, = t.autograd.grad(Square.apply(x), x, weight, create_graph=True)
    assert g.requires_grad
    return t.autograd.grad(g.sum(), weight)


def copies_have_no_hooks(t):
    import copy
    log, p = [], t.nn.Parameter(t.ones(1))
    p.register_post_accumulate_grad_hook(log.append)
    for made in (copy.deepcopy(p), copy.copy(p)):
        (made * 2).backward()
    return log


def module_hooks_in_double_backward(t):
    module, runs = t.nn.Linear(2, 2), []
    module.register_full_backward_hook(lambda *given: runs.append(len(given)))
    x = leaf(t)
    g, = t.autograd.grad(module(x).sum(), x, create_graph=True)
    g.sum().backward()
    return runs


def generators_get_what_is_thrown(t):
    @t.no_grad()
    def steps():
        for k in range(3):
            try:
                yield k, t.is_grad_enabled()
            except KeyError:
                yield "caught", t.is_grad_enabled()

    made = steps()
    seen = [next(made), made.throw(KeyError()), next(made)]
    made.close()
    return seen, t.is_grad_enabled()


def gradients_of_zeros_that_were_made(t):
    x = leaf(t)
    first = t.autograd.grad((x * 2).sum(), x, create_graph=True)
    second = t.autograd.grad((x.sum(),), leaf(t), create_graph=True, materialize_grads=True)
    return first, second[0].requires_grad, t.autograd.grad(second[0].sum(), x, materialize_grads=True)


def weights_of_batches_of_another_shape(t):
    x = leaf(t)
    return t.autograd.grad(x * 2, x, t.ones(3, 5), is_grads_batched=True)


def variables(t):
    x = t.autograd.Variable(leaf(t) * 2, requires_grad=True)
    return x, x.is_leaf, isinstance(x, t.autograd.Variable), t.autograd.Variable(leaf(t)).requires_grad


PROGRAMS = [f for f in list(globals().values()) if getattr(f, "__module__", None) == __name__
            and f.__code__.co_varnames[:f.__code__.co_argcount] == ("t",) and f is not half]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_as_in_pytorch(function):
    try:
        theirs = plain(function(torch))
    except (RuntimeError, TypeError) as error:
        with pytest.raises(type(error)):
            function(rl)
    else:
        assert plain(function(rl)) == theirs


def test_hooks_that_hold_their_node_are_freed():
    """A hook whose closure holds the node that it is a hook of is a cycle, which ends with the graph."""
    import gc
    import weakref

    def graph():
        result = rl.ones((), requires_grad=True).clone()
        node, mark = result.grad_fn, type("Mark", (), {})()
        result.register_hook(lambda gradient: (node, mark) and None)
        return result.clone(), weakref.ref(mark)

    out, mark = graph()
    out.backward()
    gc.collect()
    assert mark() is not None
    del out
    gc.collect()
    assert mark() is None


def names_of_layers(t):
    """The name of the node with which each layer's result ends, by layer and shape of the input."""
    found = {}
    for shape in ((2,), (3, 2), (3, 1, 2)):
        for bias in (True, False):
            found["Linear", shape, bias] = t.nn.Linear(2, 2, bias=bias)(t.ones(shape)).grad_fn.name()
    for rank in (1, 2, 3):
        for stem in ("Conv", "ConvTranspose"):
            for shape in ((1, 2) + (3,) * rank, (2,) + (3,) * rank):
                layer = getattr(t.nn, f"{stem}{rank}d")(2, 2, 1)
                found[stem, shape] = layer(t.ones(shape)).grad_fn.name()
    return found


def test_names_of_nodes_of_layers():
    assert names_of_layers(rl) == names_of_layers(torch)


@pytest.mark.parametrize("t", [rl, torch])
def test_the_order_of_nodes_follows_their_numbers(t):
    x = t.ones(2, requires_grad=True)
    for numbers in ((100, 99, 98), (99, 100, 98)):
        a, b = x + 1, x * 2
        c = a + b
        nodes = dict(zip("abc", (a, b, c)))
        assert b.grad_fn._sequence_nr() > a.grad_fn._sequence_nr()
        order = []
        for (name, tensor), number in zip(nodes.items(), numbers):
            tensor.grad_fn._set_sequence_nr(number)
            assert tensor.grad_fn._sequence_nr() == number
            tensor.register_hook(lambda gradient, name=name: order.append(name))
        c.sum().backward()
        assert order == ["c", *sorted("ab", key=lambda name: -numbers["abc".index(name)])]


@pytest.mark.parametrize("t", [rl, torch])
def test_functions_name_the_class_of_their_nodes(t):
    Half = half(t)
    x = t.ones(2, requires_grad=True)
    out = Half.apply(x, x)[0]
    assert type(out.grad_fn) is Half._backward_cls and Half._backward_cls.__name__ == "HalfBackward"
    assert not isinstance((x * 2).grad_fn, Half._backward_cls)
    for name in ("grad_fn", "_grad_fn"):
        assert getattr(out, name) is not None and getattr(x, name) is None
        with pytest.raises((RuntimeError, AttributeError)):
            delattr(out, name)
