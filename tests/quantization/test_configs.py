"""Configs of prepare_fx and convert_fx: they do what they say, or are refused."""
import pytest

import rushlight as torch
from rushlight.ao.quantization import get_default_qconfig_mapping
from rushlight.ao.quantization.backend_config import BackendConfig, get_native_backend_config
from rushlight.ao.quantization.fx.custom_config import ConvertCustomConfig, PrepareCustomConfig
from rushlight.ao.quantization.quantize_fx import convert_fx, fuse_fx, prepare_fx

pytestmark = pytest.mark.filterwarnings("ignore")
X = (torch.ones(2, 4),)


class Branching(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(x) if x.sum() > 0 else x


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.mark = torch.nn.Linear(4, 4), Branching(), "kept"

    def forward(self, x):
        return self.second(self.first(x))


@pytest.mark.parametrize("config", [
    PrepareCustomConfig().set_non_traceable_module_names(["second"]),
    PrepareCustomConfig().set_non_traceable_module_classes([Branching])])
def test_modules_stay_and_attributes_too(config):
    model, mapping = Model().eval(), get_default_qconfig_mapping("x86")
    with pytest.raises(Exception, match="symbolic|traced|control|proxy"):
        prepare_fx(model, mapping, X)
    prepared = prepare_fx(model, mapping, X, config.set_preserved_attributes(["mark"]))
    prepared(*X)
    assert prepared.mark == "kept" and type(prepared.second) is Branching
    made = convert_fx(prepared, ConvertCustomConfig().set_preserved_attributes(["mark"]))
    assert made.mark == "kept" and type(made.second) is Branching and made(*X).shape == (2, 4)
    assert type(made.second.inner) is torch.nn.Linear and type(made.first) is not torch.nn.Linear


def test_what_is_not_built_is_refused():
    model, mapping = torch.nn.Sequential(torch.nn.Linear(4, 4)).eval(), get_default_qconfig_mapping("x86")
    for options in ({"prepare_custom_config": PrepareCustomConfig().set_input_quantized_indexes([0])},
                    {"prepare_custom_config": {"float_to_observed_custom_module_class": {"static": {}}}},
                    {"backend_config": BackendConfig("mine")}, {"_equalization_config": {"": None}}):
        with pytest.raises(NotImplementedError, match="not built|is built"):
            prepare_fx(model, mapping, X, **options)
    with pytest.raises(NotImplementedError, match="is built"):
        fuse_fx(model, backend_config=BackendConfig("mine"))
    prepared = prepare_fx(model, mapping, X, backend_config=get_native_backend_config())
    for options in ({"qconfig_mapping": mapping}, {"keep_original_weights": True},
                    {"backend_config": BackendConfig("mine")}):
        with pytest.raises(NotImplementedError, match="not built|is built"):
            convert_fx(prepared, **options)
