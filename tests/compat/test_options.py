"""Options that change what a user can see do so as in PyTorch; what is not built is refused by name."""
import importlib
import io
import json
import warnings
import zipfile

import pytest
import torch as judge

import rushlight as torch
from rushlight._src.core.errors import NotBuiltError
from rushlight._src.core.options import accept_only

BOTH = judge, torch


def of(t, path):
    return importlib.import_module(f"{t.__name__}.{path}")


def outcome(f, *arguments):
    """What a function gives, or the type of its error."""
    try:
        return f(*arguments)
    except Exception as error:  # noqa: BLE001 - compared
        return next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")


def same(f, *arguments):
    """The outcome, which is the same in both."""
    wanted, found = (outcome(f, t, *arguments) for t in BOTH)
    assert found == wanted
    return found


def test_accepted_values_are_compared_by_value_or_identity():
    accept_only("f", a=(0, False), b=([], None, []), c=(None, None))
    for given in (True, 1, "x", judge.ones(2)):
        with pytest.raises(NotBuiltError, match=r"f\(a=") as raised:
            accept_only("f", "leave it out", a=(given, False, None))
        assert "wanted: a=False or None" in str(raised.value) and "leave it out" in str(raised.value)


@pytest.mark.parametrize("level", [None, -1, 0, 1, 2])
def test_level_of_dual_tensors(level):
    def make(t):
        forward = of(t, "autograd.forward_ad")
        with forward.dual_level():
            return forward.make_dual(t.ones(2), t.ones(2), level=level)[0].item()

    def unpack(t):
        forward = of(t, "autograd.forward_ad")
        with forward.dual_level():
            dual = forward.make_dual(t.ones(2), t.ones(2))
            tangent = forward.unpack_dual(dual, level=level).tangent
            return tangent if tangent is None else tangent.tolist()
    same(make), same(unpack)


LAYOUTS = {"strided": lambda x: x, "coo": lambda x: x.to_sparse(), "csr": lambda x: x.to_sparse_csr(),
           "csc": lambda x: x.to_sparse_csc()}


@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("second", LAYOUTS)
def test_layouts_are_compared(first, second):
    for checked in (True, False):
        for scale in (1, 2):
            same(lambda t: of(t, "testing").assert_close(
                LAYOUTS[first](t.eye(3)), LAYOUTS[second](t.eye(3) * scale), check_layout=checked))


@pytest.mark.parametrize("allowed", [True, False])
def test_subclasses_are_compared(allowed):
    def compare(t, swapped):
        pair = t.nn.Parameter(t.ones(2)), t.ones(2)
        return of(t, "testing").assert_close(*(pair[::-1] if swapped else pair), allow_subclasses=allowed)
    for swapped in (True, False):
        same(compare, swapped)


@pytest.mark.parametrize("name", ["contiguous_format", "channels_last", "channels_last_3d", "preserve_format"])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4, 5), (2, 3, 4, 5, 6)])
@pytest.mark.parametrize("gaps", [True, False])
def test_made_tensors_have_a_memory_format(name, shape, gaps):
    same(lambda t: t.testing.make_tensor(shape, dtype=t.float32, device="cpu", noncontiguous=gaps,
                                         memory_format=getattr(t, name)).stride())


@pytest.mark.parametrize("strict", [True, False])
def test_traces_refuse_dicts_where_strict(strict):
    def trace(t, result):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            t.jit.trace(lambda x: result(x + 1), t.ones(2), strict=strict)
        return any("Encountering a" in str(w.message) for w in seen)
    for result in (lambda x: x, lambda x: (x, x), lambda x: [x], lambda x: {"a": x}, lambda x: (x, {"a": x})):
        same(trace, result)


def test_events_of_all_cycles_are_kept():
    def count(t, kept):
        profiler = of(t, "profiler")
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU], acc_events=kept,
                              schedule=profiler.schedule(wait=0, warmup=0, active=1, repeat=2)) as prof:
            for _ in range(2):
                t.ones(3).sin()
                prof.step()
        return sum(e.name == "aten::sin" for e in prof.events())
    assert [same(count, kept) for kept in (True, False)] == [2, 1]


def test_trace_ids(tmp_path):
    def identify(t):
        profiler = of(t, "profiler")
        with profiler.profile(custom_trace_id_callback=lambda: "one") as prof:
            t.ones(3).sin()
        prof.export_chrome_trace(str(tmp_path / "trace.json"))
        return prof.get_trace_id(), json.loads((tmp_path / "trace.json").read_text())["trace_id"]
    assert same(identify) == ("one", "one")


@pytest.mark.parametrize("allowed", [True, False])
def test_saved_results_are_not_written(allowed):
    def run(t):
        checkpoint = of(t, "utils.checkpoint")
        x = t.ones(3, requires_grad=True)

        def f(x):
            y = t.sin(x)
            z = y.exp()
            with t.no_grad():
                y.mul_(2)
            return z
        out = checkpoint.checkpoint(f, x, use_reentrant=False, context_fn=lambda: (
            checkpoint.create_selective_checkpoint_contexts([t.ops.aten.sin.default],
                                                            allow_cache_entry_mutation=allowed)))
        out.sum().backward()
        return x.grad is not None
    assert same(run) == (True if allowed else "RuntimeError")


def test_versions_of_operators_are_written():
    """As PyTorch documents it; its archives have the versions that it knows."""
    file = io.BytesIO()
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    torch.export.save(program, file, opset_version={"mine": 3})
    with zipfile.ZipFile(file) as archive:
        name, = [name for name in archive.namelist() if name.endswith("models/model.json")]
        assert json.loads(archive.read(name))["opset_version"]["mine"] == 3
    file.seek(0)
    assert torch.export.load(file).module()(torch.ones(1, 2)).shape == (1, 2)


@pytest.mark.parametrize("options", [{}, {"include_stride": True}, {"include_device": True}, {"colored": True},
                                     {"expanded_def": True}, {"include_stride": True, "include_device": True}])
def test_printed_graphs_say_what_is_asked_for(options):
    def f(t, x, y):
        a = t.sin(x)
        return (a + y).t(), a

    def text(t, verbose):
        made = of(t, "fx.experimental.proxy_tensor").make_fx(lambda x, y: f(t, x, y))(t.ones(2, 3), t.ones(3))
        source = made.graph.python_code("self", verbose=verbose, **options).src
        return [line for line in source.splitlines() if "No stacktrace" not in line]
    same(text, True), same(text, False)


@pytest.mark.parametrize("keeps", [True, False])
def test_names_of_split_nodes(keeps):
    def names(t):
        made = t.fx.symbolic_trace(lambda x: (x + 1) * 2 + 3 * x)
        split = of(t, "fx.passes.split_module").split_module(
            made, None, lambda node: int(node.name != "add"), keep_original_node_name=keeps)
        return {name: [n.name for n in part.graph.nodes if n.op == "call_function"]
                for name, part in split.named_children()}
    same(names)


@pytest.mark.parametrize("name", ["", "sin", "cos", "absent"])
def test_nodes_match_by_name(name):
    def count(t):
        made = t.fx.symbolic_trace(lambda x: x.sin() + x.cos())
        pattern = t.fx.symbolic_trace(lambda x: x.cos())
        return len(of(t, "fx.passes.utils.matcher_utils").SubgraphMatcher(pattern.graph).match(made.graph, name))
    same(count)


@pytest.mark.parametrize("form", ["coo", "csr"])
def test_sparse_tensors_lie_where_they_are_made(form):
    def place(t, make, device):
        made = make(t, LAYOUTS[form](t.eye(2)), {"device": device} if device else {})
        return str(made.layout), made.device.type
    makers = [lambda t, x, options: t.zeros_like(x, **options), lambda t, x, options: x.new_zeros((2, 2), **options),
              lambda t, x, options: t.empty_like(x, **options)]
    if form == "csr":
        makers.append(lambda t, x, options: t.full_like(x, 2.0, **options))
        makers.append(lambda t, x, options: t.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 2.0], (2, 2), **options))
    else:
        makers.append(lambda t, x, options: t.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2), **options))
    for make in makers:
        for device in (None, "cpu", "meta"):
            same(place, make, device)


def test_sparse_tensors_have_no_memory_format():
    for name in ("contiguous_format", "preserve_format", "channels_last"):
        for f in (lambda t, x, m: x.clone(memory_format=m), lambda t, x, m: t.zeros_like(x, memory_format=m),
                  lambda t, x, m: x.resize_as_(x, memory_format=m)):
            assert same(lambda t: f(t, t.eye(2).to_sparse(), getattr(t, name))) == "RuntimeError"
        assert same(lambda t: t.eye(2).to_sparse_csr().clone(memory_format=getattr(t, name))) == "RuntimeError"


def test_numbers_of_sparse_dimensions():
    for count in (0, 1, 2, 3):
        for form in ("coo", "csr"):
            same(lambda t: LAYOUTS[form](t.eye(2)).to_sparse(count).sparse_dim())
    for given in (((3, 3), 2, 0), ((3, 3), 1, 1), ((3, 3), 1, 0), ((3, 3), 2, 1), ((3, 3, 2), 1, 2)):
        same(lambda t: t.eye(2).to_sparse().sparse_resize_and_clear_(*given).sparse_dim())


def test_tags_and_keys_of_operators():
    def tags(t, given):
        library = t.library.Library(f"options_{len(given)}", "DEF")
        library.define("f(Tensor x) -> Tensor", tags=tuple(getattr(t.Tag, name) for name in given))
        return {str(tag).rpartition(".")[2] for tag in getattr(t.ops, f"options_{len(given)}").f.default.tags}
    for given in ((), ("pointwise",), ("pointwise", "pt2_compliant_tag")):
        assert same(tags, given) == set(given)

    def override(t, allowed):
        library = t.library.Library(f"options_keys_{allowed}", "DEF")
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: x + 1, "CPU")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library.impl("f", lambda x: x + 2, "CPU", allow_override=allowed)
        return getattr(t.ops, f"options_keys_{allowed}").f(t.ones(1)).item()
    assert same(override, True) == 3 and same(override, False) == "RuntimeError"
    same(lambda t: t.library.Library("options_alias", "DEF").define("f(Tensor x) -> Tensor", "UNKNOWN"))


def test_factories_of_observers():
    def dtypes(t, name, options):
        made = getattr(of(t, "ao.quantization"), name)(factory_kwargs=options(t))
        return {key: str(value.dtype).rpartition(".")[2] for key, value in made.named_buffers()}
    for name in ("MinMaxObserver", "PerChannelMinMaxObserver", "HistogramObserver"):
        for options in (lambda t: None, lambda t: {"dtype": t.float64}, lambda t: {"device": "cpu"}):
            same(dtypes, name, options)
        same(lambda t: getattr(of(t, "ao.quantization"), name)(unknown=1) and None)


def test_what_is_not_built_is_refused():
    quantization = of(torch, "ao.quantization")
    for call in (lambda: torch.futures.Future(devices=["cuda:0"]),
                 lambda: quantization.prepare(torch.nn.Linear(2, 2), prepare_custom_config_dict={"a": {1: 2}}),
                 lambda: quantization.convert(torch.nn.Linear(2, 2), use_precomputed_fake_quant=True),
                 lambda: torch.profiler.profile(execution_trace_observer=object()),
                 lambda: of(torch, "distributed").Backend.register_backend("mine", None, extended_api=True),
                 lambda: of(torch, "autograd.profiler").profile(use_cpu=False)):
        with pytest.raises(NotBuiltError, match=r"wanted: \w+="):
            call()
    torch.futures.Future(devices=[])
