"""Functions of smaller modules, beside PyTorch's."""
import importlib
import logging

import numpy as np
import pytest

judge = pytest.importorskip("torch")

import rushlight  # noqa: E402

BOTH = (rushlight, judge)


def of(library, path):
    return importlib.import_module(f"{library.__name__}.{path}")


def test_parameters_that_are_drawn():
    """The same random numbers are read in the same order."""
    found = []
    for library in BOTH:
        fuzz = of(library, "utils.benchmark")
        fuzzer = fuzz.Fuzzer([fuzz.FuzzedParameter("n", 2, 9, "uniform"),
                              fuzz.FuzzedParameter("k", 1, 2, "uniform"),
                              fuzz.FuzzedParameter("m", 1, 100, "loguniform")],
                             [fuzz.FuzzedTensor("x", ("n", "m"), ("k", 1), probability_contiguous=0.5)],
                             constraints=[lambda n, **_: n != 5], seed=3)
        rows = [(tuple(t["x"].shape), sorted((k, v) for k, v in p.items())) for t, _, p in fuzzer.take(6)]
        assert all(shape == (dict(p)["n"], dict(p)["m"]) for shape, p in rows) and 0 <= fuzzer.rejection_rate < 1
        found.append(rows)
    assert found[0][0] == found[1][0]


def test_sparse_tensors_that_are_drawn():
    fuzz = of(rushlight, "utils.benchmark")
    parameters = [fuzz.FuzzedParameter(name, value, value, "uniform") for name, value in (("n", 8), ("dims", 2),
                                                                                          ("nnz", 5), ("sorted", 1))]
    tensor = fuzz.FuzzedSparseTensor("x", ("n", "n"), sparse_dim="dims", nnz="nnz", coalesced="sorted")
    (tensors, facts, _), = fuzz.Fuzzer(parameters, [tensor], seed=0).take(1)
    assert tensors["x"].is_coalesced() and tuple(tensors["x"].shape) == (8, 8) and facts["x"]["sparse_dim"] == 2
    with pytest.raises(AssertionError, match="add up"):
        fuzz.FuzzedParameter("k", distribution={1: 0.4, 2: 0.4})


def test_what_a_machine_says():
    answers = {"gcc --version": (0, "gcc (Debian 12) 12.2.0\nmore", ""), "false": (1, "", "no"),
               "nvcc --version": (127, "", "not found")}

    def run(command):
        return answers.get(command if isinstance(command, str) else " ".join(command), (1, "", ""))

    for name in ("get_gcc_version", "get_clang_version", "get_cmake_version", "get_running_cuda_version",
                 "get_nvidia_driver_version", "get_gpu_info", "get_lsb_version"):
        ours, theirs = (getattr(of(library, "utils.collect_env"), name)(run) for library in BOTH)
        assert ours == theirs, name
    ours, theirs = (of(library, "utils.collect_env") for library in BOTH)
    assert ours.run("echo a; exit 3") == theirs.run("echo a; exit 3") == (3, "a", "")
    assert ours.run_and_read_all(ours.run, "false") is None and ours.get_platform() == theirs.get_platform()
    assert ours.SystemEnv._fields == theirs.SystemEnv._fields
    filled = ours.SystemEnv(*(None for _ in ours.SystemEnv._fields))
    assert "Could not collect" in ours.pretty_str(filled)


def test_loggers_and_places_of_launchers(monkeypatch):
    monkeypatch.setenv("LOGLEVEL", "ERROR")
    for library in BOTH:
        logger = of(library, "distributed.elastic.utils.logging").get_logger("some.name")
        assert isinstance(logger, logging.Logger) and logger.name == "some.name" and logger.level == logging.ERROR
        macros = of(library, "distributed.elastic.utils.api").macros
        assert macros.substitute([f"out.{macros.local_rank}", 3], "2") == ["out.2", 3]
    assert of(rushlight, "distributed.elastic.utils.logging").get_logger().name == __name__


@pytest.mark.parametrize("dtype", ["qint8", "quint8", "qint32", "int8", "uint8"])
@pytest.mark.parametrize("half", [False, True])
def test_ranges_of_whole_numbers(dtype, half):
    given = [of(library, "ao.quantization.utils").calculate_qmin_qmax(0, 100, False, getattr(library, dtype), half)
             for library in BOTH]
    own = [of(library, "ao.quantization.utils").calculate_qmin_qmax(0, 100, True, getattr(library, dtype), half)
           for library in BOTH]
    assert given[0] == given[1] and own[0] == own[1]


def test_what_qconfigs_say():
    names = ("activation_is_statically_quantized", "activation_is_dynamically_quantized",
             "activation_is_int8_quantized", "activation_is_int32_quantized", "weight_is_statically_quantized",
             "op_is_int8_dynamically_quantized", "get_qconfig_dtypes", "get_quant_type")
    for config in ("default_qconfig", "default_dynamic_qconfig", "default_weight_only_qconfig",
                   "float16_dynamic_qconfig"):
        for name in names:
            found = []
            for library in BOTH:
                call = getattr(of(library, "ao.quantization.utils"), name)
                try:
                    found.append(str(call(getattr(of(library, "ao.quantization"), config))))
                except (AttributeError, NotImplementedError, ValueError) as error:
                    found.append(type(error).__name__)
            assert found[0] == found[1], (config, name)
    for library in BOTH:
        utils = of(library, "ao.quantization.utils")
        with pytest.raises(AssertionError):
            utils.validate_qmin_qmax(1, 5)
        assert utils.check_min_max_valid(library.tensor(0.0), library.tensor(1.0))


@pytest.mark.parametrize("kinds,function", [
    (("Conv2d", "BatchNorm2d"), "fuse_conv_bn"), (("Conv1d", "BatchNorm1d", "ReLU"), "fuse_conv_bn_relu"),
    (("Linear", "BatchNorm1d"), "fuse_linear_bn"), (("ConvTranspose2d", "BatchNorm2d"), "fuse_convtranspose_bn")])
def test_layers_made_one(kinds, function):
    mapping = of(rushlight, "ao.quantization.fuser_method_mappings")
    nn = rushlight.nn
    layers = [getattr(nn, kinds[0])(3, 4, *(() if kinds[0] == "Linear" else (3,))), getattr(nn, kinds[1])(4),
              *([nn.ReLU()] if len(kinds) > 2 else [])]
    for layer in layers:
        layer.eval()
    layers[1].running_mean.normal_(), layers[1].running_var.uniform_(0.5, 2)
    x = rushlight.randn(2, 3, *(() if kinds[0] == "Linear" else (7,) if "1d" in kinds[0] else (7, 7)))
    wanted = x
    for layer in layers:
        wanted = layer(wanted)
    method = mapping.get_fuser_method(tuple(type(layer) for layer in layers))
    assert method is getattr(mapping, function)
    np.testing.assert_allclose(method(False, *layers)(x).detach().numpy(), wanted.detach().numpy(), rtol=1e-4,
                               atol=1e-5)
    with pytest.raises(AssertionError):
        mapping.get_fuser_method((nn.ReLU, nn.Linear))


def test_types_of_symbols():
    for library in BOTH:
        assert of(library, "fx.experimental.proxy_tensor").py_sym_types == (library.SymInt, library.SymFloat,
                                                                           library.SymBool)


@pytest.mark.parametrize("path,name", [
    ("onnx.symbolic_opset9", "softmax"), ("onnx.symbolic_opset17", "stft"),
    ("onnx.symbolic_helper", "dequantize_helper"),
    ("fx.experimental.migrate_gradual_types.constraint", "TVar"), ("utils.cpp_extension", "load_inline"),
    ("utils.data.datapipes.dataframe.dataframes", "Capture"), ("distributed.flight_recorder.components.types", "Op")])
def test_families_that_refuse_say_why(path, name):
    """They can be imported; what uses them reads the reason of the whole family, not that it has not been built."""
    found = getattr(of(rushlight, path), name)
    with pytest.raises(NotImplementedError) as refused:
        found(rushlight.ones(1), 1)
    assert "exists here only as a name" in str(refused.value) and "has not been built" not in str(refused.value)
