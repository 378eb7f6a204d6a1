"""The name torch: modules, what exists only as a name, jit, hub, testing, the stand-in for torchvision."""
import subprocess
import sys

import numpy as np
import pytest

import rushlight as torch
from rushlight.distributed.tensor import DTensor

PROGRAM = """
import torch, torch.nn.modules.linear, torchvision, torchvision.transforms as T
from torch.utils.data.dataloader import DataLoader, default_collate
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch.distributed import is_available
assert torch.nn.modules.linear.Linear is torch.nn.Linear and torch.__version__ >= (2, 6) and torch.__version__ >= "2.6"
assert torch.version.__version__ == torch.__version__ and torch.version.cuda is None and is_available()
import importlib.metadata
assert importlib.metadata.version("torch") == torch.__version__
import rushlight
assert rushlight is torch and torch.__name__ == "torch" and torch.torch is torch
from torch import autocast
assert isinstance(torch.amp.autocast, type) and autocast is torch.amp.autocast
print("done")
"""


def test_every_name_is_the_one_module(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", "rushlight", str(tmp_path / "program.py")], capture_output=True,
                          text=True, timeout=900,
                          env={**__import__("os").environ,
                               "PYTHONPATH": str(__import__("pathlib").Path(torch.__file__).resolve().parents[1])})
    assert done.stdout.strip() == "done", done.stderr


def test_what_is_only_a_name_says_so_when_used():
    assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
    assert torch.accelerator.current_accelerator() is None
    assert not isinstance(3, torch.cuda.Stream)
    for use in (lambda: torch.cuda.Stream(), lambda: torch.cuda.synchronize(),
                lambda: torch.utils.mobile_optimizer.optimize_for_mobile(None),
                lambda: torch.zeros(2, dtype=torch.float8_e8m0fnu)):
        with pytest.raises(NotImplementedError, match="only as a name"):
            use()

    class Mine(torch.cuda.Stream):
        pass

    assert issubclass(Mine, torch.cuda.Stream)


def test_names_of_several_processes_and_of_quantization():
    import rushlight.quantization as quantization
    from rushlight.utils.cpp_extension import load_inline
    for use in (quantization.prepare_jit, load_inline):
        with pytest.raises(NotImplementedError, match="only as a name"):
            use()


def test_native_names():
    x = torch.ones(4)
    assert torch._C._fft.fft_fft(x)[0].item() == 4 and torch._C._linalg.linalg_norm(
        x).item() == 2 and torch._C._nn.gelu(x).shape == (4,)
    before = torch._C._jit_set_profiling_executor(False)
    assert torch._C._jit_set_profiling_executor(before) is False
    with pytest.raises(AttributeError):
        torch._C._fft.rfft
    assert torch.sparse_csc is not torch.sparse_csr


def test_names_for_annotations():
    from rushlight.types import Device, Number
    assert isinstance(3, Number) and isinstance("cpu", Device) and not isinstance("3", Number)


def test_types_by_dtype():
    assert isinstance(torch.ones(2), torch.FloatTensor) and not isinstance(torch.ones(2), torch.LongTensor)
    assert torch.LongTensor([1, 2]).dtype is torch.int64 and torch.FloatTensor(2, 3).shape == (2, 3)


def test_checks():
    torch._assert(True, "fine")
    torch._check(True)
    for call, error in ((lambda: torch._assert(False, "no"), AssertionError),
                        (lambda: torch._check(False, lambda: "no"), RuntimeError),
                        (lambda: torch._check_value(False), ValueError),
                        (lambda: torch._check_is_size(-1), RuntimeError),
                        (lambda: torch._check_tensor_all_with(TypeError, torch.tensor([True, False])), TypeError)):
        with pytest.raises(error):
            call()


def test_jit_runs_saves_and_loads(tmp_path):
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    x = torch.randn(4, 3)
    for made in (torch.jit.script(module), torch.jit.trace(module, x)):
        assert torch.equal(made(x), module(x)) and list(made.state_dict()) == list(module.state_dict()) and isinstance(
            made, torch.jit.ScriptModule)
        made.save(tmp_path / "m.pt")
        assert torch.equal(torch.jit.load(tmp_path / "m.pt")(x), module(x))
    assert not torch.jit.is_scripting() and torch.jit.script(torch.nn.functional.relu)(x).min() >= 0
    assert torch.jit.annotate(int, 3) == 3 and torch.jit.ignore(test_checks) is test_checks and torch.jit.unused()(
        test_checks) is test_checks
    assert torch.jit.isinstance([1], list) and not torch.jit.isinstance((1,), list)
    with pytest.raises(NotImplementedError, match="no graph"):
        torch.jit.script(module).graph
    torch.jit.save(torch.jit.script(lambda x: x + 1), tmp_path / "f.pt")
    assert torch.equal(torch.jit.load(tmp_path / "f.pt")(x), x + 1)


def test_hub_reads_local_folders(tmp_path):
    (tmp_path / "hubconf.py").write_text("import torch\n\ndef linear(n):\n    'a layer'\n    return n * 2\n".replace(
        "import torch\n", ""))
    assert torch.hub.load(str(tmp_path), "linear", 3,
                          source="local") == 6 and torch.hub.list(str(tmp_path)) == ["linear"]
    assert torch.hub.help(str(tmp_path), "linear") == "a layer"
    with pytest.raises(NotImplementedError, match="download"):
        torch.hub.load("owner/name", "linear")
    with pytest.raises(RuntimeError, match="callable"):
        torch.hub.load(str(tmp_path), "nothing", source="local")


def test_assert_close():
    close = torch.testing.assert_close
    close({"a": [torch.ones(2), 1.0]}, {"a": [torch.ones(2) + 1e-7, 1.0 + 1e-9]})
    for a, b, text in ((torch.ones(2), torch.ones(3), "shape"), (torch.ones(2), torch.ones(2).double(), "dtype"),
                       (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]), "1 / 2"),
                       ({"a": 1}, {"b": 1}, "keys"), ([1], [1, 2], "length"), (1.0, 2.0, "Scalars")):
        with pytest.raises(AssertionError, match=text):
            close(a, b)
    with pytest.raises(TypeError):
        close(torch.ones(1), "text")


def test_the_stand_in_for_torchvision():
    from rushlight._src.compat.torchvision import io, ops, transforms
    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]])
    assert ops.nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5).tolist() == [0, 2]
    assert ops.box_iou(boxes, boxes).diagonal().tolist() == [1, 1, 1]
    assert torch.allclose(ops.box_convert(ops.box_convert(boxes, "xyxy", "cxcywh"), "cxcywh", "xyxy"), boxes)
    image = (np.arange(3 * 40 * 30).reshape(40, 30, 3) % 255).astype(np.uint8)
    steps = transforms.Compose([transforms.ToPILImage(), transforms.Resize(16), transforms.CenterCrop(12),
                                transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.5] * 3)])
    assert steps(image).shape == (3, 12, 12)
    flipped = transforms.functional.hflip(torch.arange(6.0).reshape(1, 2, 3))
    assert flipped.tolist() == [[[2, 1, 0], [5, 4, 3]]]
    features = torch.arange(16.0).reshape(1, 1, 4, 4)
    assert ops.roi_align(features, torch.tensor([[0.0, 0, 0, 4, 4]]), 2, sampling_ratio=2,
                         aligned=True).shape == (1, 1, 2, 2)
    frozen = ops.FrozenBatchNorm2d(3)
    x = torch.randn(1, 3, 2, 2)
    assert torch.allclose(frozen(x), x, atol=1e-4)
    with pytest.raises(NotImplementedError, match="only as a name"):
        io.VideoReader("film")


def test_trees_with_paths():
    from rushlight.utils import _pytree as tree
    found, spec = tree.tree_flatten_with_path({"a": [1, 2], "b": 3})
    assert [(tree.keystr(p), v) for p, v in found] == [("['a'][0]", 1), ("['a'][1]", 2), ("['b']", 3)]
    assert tree.tree_map_with_path(lambda p, v: len(p), {"a": [1, 2], "b": 3}) == {"a": [2, 2], "b": 1}
    assert tree.tree_all(lambda v: v > 0, [1, 2]) and not tree.tree_any(lambda v: v > 2, [1, 2])


def test_running_combinations():
    from rushlight._higher_order_ops import associative_scan
    x = torch.randn(7, 3)
    assert torch.allclose(associative_scan(lambda a, b: a + b, x, 0), x.cumsum(0), atol=1e-6)
    assert torch.allclose(associative_scan(lambda a, b: a * b, x, 0, reverse=True), x.flip(0).cumprod(0).flip(0),
                          atol=1e-6)


@pytest.mark.parametrize("make", [lambda t: 3, lambda t: "a", lambda t: int, lambda t: len, lambda t: t.ones(1),
                                  lambda t: t.nn.Linear, lambda t: t.nn.ReLU()])
def test_names_of_types(make):
    import torch as judge
    assert torch.typename(make(torch)).rpartition(".")[2] == judge.typename(make(judge)).rpartition(".")[2]


def test_transforms_of_the_second_version():
    from rushlight._dynamo.eval_frame import OptimizedModule
    from rushlight._src.compat.torchvision.transforms import v2
    image = v2.ToImage()(np.zeros((4, 5, 1), np.uint8) + 255)
    assert tuple(image.shape) == (1, 4, 5) and v2.ToDtype(torch.float32, scale=True)(image).max().item() == 1
    assert tuple(v2.functional.grayscale_to_rgb(image).shape) == (3, 4, 5)
    assert isinstance(torch.compile(torch.nn.ReLU()),
                      OptimizedModule) and torch.nn.modules.module._EXTRA_STATE_KEY_SUFFIX == "_extra_state"


@pytest.mark.parametrize("name,count,shape", [("resnet18", 11689512, (1, 1000)), ("resnext50_32x4d", 25028904, None),
                                              ("wide_resnet50_2", 68883240, None), ("vgg16", 138357544, None),
                                              ("vgg11_bn", 132868840, None), ("densenet121", 7978856, None),
                                              ("mobilenet_v2", 3504872, (1, 1000)), ("alexnet", 61100840, None)])
def test_models_of_torchvision(name, count, shape):
    """As many parameters as torchvision's, under their names."""
    from rushlight._src.compat.torchvision import models
    with torch.device("meta" if shape is None else "cpu"):
        model = models.get_model(name, weights=None)
    assert sum(p.numel() for p in model.parameters()) == count
    if shape is not None:
        assert model.eval()(torch.randn(1, 3, 64, 64)).shape == shape
    last = {"resnet18": "layer4.1.bn2.running_var", "mobilenet_v2": "features.17.conv.2.weight",
            "densenet121": "features.denseblock4.denselayer16.conv2.weight"}.get(name)
    assert last is None or last in model.state_dict()


def test_trained_weights_are_not_here():
    from rushlight._src.compat.torchvision import models
    with pytest.raises(NotImplementedError, match="load_state_dict"):
        models.resnet18(weights=models.ResNet18_Weights.DEFAULT)
    with pytest.raises(NotImplementedError, match="load_state_dict"):
        models.vgg11(weights="IMAGENET1K_V1")
    with pytest.raises(ValueError, match="resnet18"):
        models.get_model("resnet19")
    with pytest.raises(NotImplementedError, match="pip install"):
        models.vit_b_16()


def test_densenet_that_saves_memory():
    from rushlight._src.compat.torchvision.models import DenseNet
    results = []
    for lean in (False, True):
        torch.manual_seed(0)
        model = DenseNet(4, (2, 2), 8, num_classes=3, memory_efficient=lean)
        x = torch.linspace(-1, 1, 2 * 3 * 32 * 32).reshape(2, 3, 32, 32)
        model(x).square().sum().backward()
        results.append([p.grad for p in model.parameters()])
    for a, b in zip(*results):
        torch.testing.assert_close(a, b)


def test_names_that_libraries_go_through():
    import rushlight.distributions as distributions
    from rushlight.autograd.function import FunctionCtx
    from rushlight.distributions.utils import _standard_normal
    from rushlight.nn.modules.utils import _pair, _reverse_repeat_tuple, consume_prefix_in_state_dict_if_present
    from rushlight.utils._pytree import SUPPORTED_NODES, _get_node_type
    from rushlight.utils.checkpoint import get_device_states, set_device_states
    assert torch.torch is torch and _pair(3) == (3, 3) and _pair((1, 2)) == (1, 2) and _reverse_repeat_tuple(
        (1, 2), 2) == (2, 2, 1, 1)
    state = {"module.a": 1, "b": 2}
    consume_prefix_in_state_dict_if_present(state, "module.")
    assert state == {"a": 1, "b": 2}
    assert distributions.__dict__["Wishart"] is distributions.Wishart and vars(distributions)[
        "Cauchy"] is distributions.Cauchy
    assert _standard_normal((2, 3), torch.float64, "cpu").dtype is torch.float64
    assert SUPPORTED_NODES[_get_node_type([1])].flatten_fn([1, 2]) == ([1, 2], None) and _get_node_type(
        3) not in SUPPORTED_NODES
    assert get_device_states(torch.ones(2)) == ([], []) and set_device_states([], []) is None
    assert isinstance(torch.Tensor, torch._C._TensorMeta)
    parse = torch._C._nn._parse_to
    assert parse("cpu", torch.float16, True) == (torch.device("cpu"), torch.float16, True,
                                                 None) and parse(dtype=torch.float64,
                                                                 non_blocking=True) == (None, torch.float64, True, None)
    assert torch.profiler.kineto_available()
    assert hasattr(FunctionCtx, "save_for_backward") and not torch._C._are_functorch_transforms_active()
    inside = []
    torch.func.vmap(lambda x: inside.append(torch._C._are_functorch_transforms_active()) or x)(torch.ones(2))
    assert inside == [True]
    torch._assert_async(torch.tensor(True))
    with pytest.raises(RuntimeError, match="zero"):
        torch._assert_async(torch.tensor(0))
    assert torch.distributed.device_mesh.DeviceMesh is not None
    for name, why in (("TensorType", "only as a name"), ("Stream", "no accelerator|when none is available"),
                      ("Event", "when none is available")):
        with pytest.raises(NotImplementedError, match=why):
            getattr(torch, name)()


def test_samples_of_classes_of_users_are_collated():
    from rushlight.utils.data._utils.collate import collate, default_collate, default_collate_fn_map

    class Sample(int):
        pass

    class Row(dict):
        pass

    assert default_collate([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])["b"] == ["x", "y"]
    assert type(default_collate([Row(a=1), Row(a=2)])) is Row
    joined = collate([(Sample(1), 2.0), (Sample(3), 4.0)],
                     collate_fn_map={Sample: lambda batch, *, collate_fn_map=None: sum(batch),
                                     **default_collate_fn_map})
    assert joined[0] == 4 and joined[1].dtype is torch.float64
    with pytest.raises(TypeError, match="found"):
        default_collate([np.array(["a"]), np.array(["b"])])
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([[1, 2], [3]])


def test_rooms_of_the_native_module_stay_what_they_are_when_imported():
    program = ("import rushlight as torch, importlib; importlib.import_module('rushlight._C._nn'); "
               "torch._C._nn._parse_to('cpu'); torch._C._nn.relu_(torch.ones(1)); torch._C._nn.gelu; "
               "torch._C._nn.cross_entropy_loss")
    subprocess.run([sys.executable, "-c", program], check=True, timeout=1500)


def test_types_of_tensors_share_memory():
    x = torch.zeros(2)
    torch.FloatTensor(x).add_(1)
    assert x.tolist() == [1, 1]
    with pytest.raises(TypeError):
        torch.DoubleTensor(x)
