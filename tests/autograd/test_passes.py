"""A backward pass as hooks and functions see it: what runs, what is called afterwards, which steps chosen inputs leave
out, and how gradients lie in memory."""
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
both = pytest.mark.parametrize("t", [rl, torch], ids=["rushlight", "torch"])


def leaf(t, *shape):
    return t.ones(*(shape or (2,)), requires_grad=True)


@both
def test_hooks_run_where_gradients_are_asked_for(t):
    a, seen = leaf(t), []
    b = a * 2
    c = (b * 2).sum()
    a.register_hook(lambda g: seen.append("a")), b.register_hook(lambda g: seen.append("b"))
    b.grad_fn.register_hook(lambda *_: seen.append("after b")), b.grad_fn.register_prehook(
        lambda g: seen.append("before b"))
    for inputs in (b, (a, b), a):
        t.autograd.grad(c, inputs, retain_graph=True)
        seen.append(None)
    assert seen == ["b", None, "b", "before b", "after b", "a", None, "b", "before b", "after b", "a", None]


@both
def test_edges_take_the_place_of_tensors(t):
    x, y = leaf(t).clone(), leaf(t).clone()
    edge = t.autograd.graph.GradientEdge(y.grad_fn, y.output_nr)
    out = (x * 2).sum()
    t.autograd.backward(out, inputs=(t.autograd.graph.get_gradient_edge(x), edge), retain_graph=True)
    assert t.autograd.grad(out, (x, edge), allow_unused=True, retain_graph=True)[1] is None
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used when the given input is a GradientEdge"):
        t.autograd.grad(out, (x, edge), materialize_grads=True, retain_graph=True)
    with pytest.raises(ValueError, match="Expected allow_unused to be True or not passed"):
        t.autograd.grad(out, x, allow_unused=False, materialize_grads=True)
    with pytest.raises(RuntimeError, match=r"grad_output\[0\] has a shape of torch.Size\(\[2\]\)"):
        t.autograd.grad(x * t.ones(2, 2), x, t.ones(2))


@both
def test_what_is_queued_runs_when_the_pass_is_done(t):
    seen, engine = [], t.autograd.Variable._execution_engine
    x = leaf(t)
    y = x * 2
    y.register_hook(lambda g: engine.queue_callback(lambda: seen.append(x.grad.tolist())))
    y.sum().backward()
    assert seen == [[2, 2]]
    with pytest.raises(RuntimeError, match="during backward pass"):
        engine.queue_callback(print)


@both
def test_passes_have_numbers_and_know_their_step(t):
    x, seen = leaf(t).clone(), []
    x.register_hook(lambda g: seen.append((t._C._current_graph_task_id(), t._C._current_autograd_node())))
    for _ in range(2):
        x.sum().backward()
    assert seen[1][0] == seen[0][0] + 1 and t._C._current_graph_task_id() == -1
    assert seen[0][1] == x.grad_fn


ASKED = {"backward": lambda t, out, x, a, c: out.backward(),
         "backward to a leaf": lambda t, out, x, a, c: out.backward(inputs=[x]),
         "grad of a leaf": lambda t, out, x, a, c: t.autograd.grad(out, x),
         "grad of results": lambda t, out, x, a, c: t.autograd.grad(out, (a, c)),
         "grad of both": lambda t, out, x, a, c: t.autograd.grad(out, (x, a))}


def executed_nodes(t, ask):
    """What a hook of a backward pass is told of nodes in its graph and beside it: a bool, or the error's text."""
    x, y, z = leaf(t), leaf(t), leaf(t)
    a, b, beside = x * 2, y * 3, z * 5
    c = a + b
    nodes = [one.grad_fn for one in (a, b, beside, c)]
    nodes += [node.next_functions[0][0] for node in nodes[:3]]
    inner, told = beside.sum(), []

    def look(_):
        inner.backward(retain_graph=True)  # a pass within the pass does not change what this one executes
        for node in nodes:
            try:
                told.append(t._C._will_engine_execute_node(node))
            except RuntimeError as error:
                told.append(str(error))

    c.register_hook(look)
    ask(t, c.exp().sum(), x, a, c)
    return told


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_hooks_are_told_which_nodes_are_executed(ask):
    told = executed_nodes(rl, ask)
    assert told == executed_nodes(torch, ask) and True in told and False in told


@both
def test_nodes_are_asked_about_during_a_backward_pass(t):
    node = (leaf(t) * 2).grad_fn
    with pytest.raises(RuntimeError, match="only be called during the backward pass"):
        t._C._will_engine_execute_node(node)
    with pytest.raises(RuntimeError, match="expects an grad_fn, but got int"):
        t._C._will_engine_execute_node(3)


@both
def test_a_hook_on_a_gradient_that_is_there_returns_nothing(t):
    x = leaf(t)
    x.register_post_accumulate_grad_hook(lambda leaf: leaf.grad)
    with pytest.raises(RuntimeError, match="hooks should return None"):
        x.sum().backward()


@both
def test_hooks_on_saved_tensors_that_are_entered_on_the_way_end_with_the_pass(t):
    hooks, seen = t.autograd.graph.saved_tensors_hooks(lambda x: seen.append("packed") or x,
                                                       lambda x: hooks.__enter__() or x), []
    with hooks:
        out = leaf(t).sin().sum()
    out.backward()
    before = list(seen)
    leaf(t).sin()
    assert seen == before


@both
@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("layout", ["rows", "columns", "channels last", "part"])
def test_a_gradient_lies_as_its_leaf(t, create, layout):
    whole = t.ones(2, 3, 4, 5)
    x = {"rows": whole, "columns": whole.permute(3, 2, 1, 0), "channels last": whole.to(memory_format=t.channels_last),
         "part": whole[:, :, ::2]}[layout].detach().requires_grad_()
    for weight in (t.ones(x.shape), t.ones(x.shape[::-1]).permute(3, 2, 1, 0), t.ones(()).expand(x.shape)):
        x.grad = None
        x.backward(weight, create_graph=create)
        assert x.grad.stride() == (x.stride() if layout != "part" else x.contiguous().stride())
        assert x.grad.data_ptr() != weight.data_ptr()


@both
def test_what_follows_a_step(t):
    x = leaf(t)
    a = x * 2
    b = a * t.ones(2)
    assert [node and node.name() for node, _ in (a + x).grad_fn.next_functions] == ["MulBackward0",
                                                                                    "torch::autograd::AccumulateGrad"]
    for made in (b, a + 5, a - 1.5, 2 * a):
        assert made.grad_fn.next_functions == ((a.grad_fn, 0),
                                               (None, 0)) if made is not b else made.grad_fn.next_functions[1] == (
                                                   None, 0)
    assert len(a.pow(2).grad_fn.next_functions) == len(a.sum(0).grad_fn.next_functions) == 1


@both
def test_nodes_are_instances_of_a_class_that_they_do_not_derive_from(t):
    Node, seen = t.autograd.graph.Node, []

    class Same(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(ctx)
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g

    made = Same.apply(leaf(t))
    nodes = [made.grad_fn, made.grad_fn.next_functions[0][0], made.exp().grad_fn, *seen]
    assert all(isinstance(node, Node) and Node not in type(node).mro() for node in nodes)
    assert issubclass(type(nodes[0]), Node) and issubclass(t._C._functions.AccumulateGrad,
                                                           Node) and not isinstance(1, Node) and not isinstance(
                                                               Node, Node)


@both
def test_steps_that_refuse_or_give_nothing(t):
    x = leaf(t)
    with pytest.raises(RuntimeError, match="Boom"):
        t._C._functions.DelayedError("Boom", 1)(x * 1).sum().backward()
    t._C._functions.UndefinedGrad()(x * 1).sum().backward()
    assert x.grad is None or not x.grad.any()


@both
def test_a_function_has_one_derivative(t):
    class Two(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g

        vjp = backward

    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        Two.apply(leaf(t)).sum().backward()


@both
def test_a_class_is_no_place_for_a_mode(t):
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):
        @t.no_grad()
        class Made:
            def __init__(self):
                self.recording = t.is_grad_enabled()

    assert not Made().recording


@pytest.mark.parametrize("compiled", [False, True])
def test_reentrant_checkpoints_are_valid_except_for_chosen_inputs(compiled):
    found = []
    for library in (rl, torch):
        valid, seen = library.autograd._is_checkpoint_valid, []

        class Asking(library.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, gradient):
                seen.append(valid())
                return gradient * 2

        x = library.ones(2, requires_grad=True)
        y = Asking.apply(x).sum()
        library.autograd.grad(y, x, retain_graph=True)
        y.backward(inputs=[x], retain_graph=True)
        y.backward()

        def program(x):
            return x + 1 if valid() else x - 1

        run = library.compile(program, backend="eager", fullgraph=True) if compiled else program
        found.append([seen, valid(), run(library.zeros(2)).tolist()])
    assert found[0] == found[1]


@both
def test_functions_see_whether_the_graph_is_kept(t):
    seen = []

    class Seen(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append(t._C._autograd._get_current_graph_task_keep_graph())
            return gradient

    out = Seen.apply(leaf(t)).sum()
    out.backward(retain_graph=True), out.backward()
    assert seen == [True, False] and t._C._autograd._get_current_graph_task_keep_graph()
