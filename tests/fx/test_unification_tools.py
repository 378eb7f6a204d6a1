"""Functions of dictionaries, beside PyTorch."""
import importlib
import operator

import pytest

PATHS = ("torch", "rushlight")
CALLS = [
    lambda m: m.merge({1: 2}, {1: 3, 4: 5}), lambda m: m.merge([{1: 2}, {3: 4}]), lambda m: m.merge({}, other=dict),
    lambda m: m.merge_with(sum, {1: 1}, {1: 10, 2: 5}), lambda m: m.valmap(len, {"a": "xy"}),
    lambda m: m.keymap(str, {1: 2}), lambda m: m.itemmap(lambda kv: kv[::-1], {1: 2}), lambda m: m.first([3, 4]),
    lambda m: m.valfilter(bool, {1: 0, 2: 3}), lambda m: m.keyfilter(bool, {0: 1, 2: 3}), lambda m: m.first([]),
    lambda m: m.itemfilter(lambda kv: kv[0] < kv[1], {0: 1, 5: 3}), lambda m: m.assoc({1: 2}, 3, 4),
    lambda m: m.dissoc({1: 2, 3: 4}, 3, 7), lambda m: m.assoc_in({"a": {"b": 1}}, ["a", "c"], 2),
    lambda m: m.assoc_in({}, ["a", "c"], 2), lambda m: m.update_in({"a": {"b": 1}}, ["a", "b"], lambda x: x + 1),
    lambda m: m.update_in({}, ["a", "b"], lambda x: x + 1, 0), lambda m: m.get_in(["a", 0], {"a": [7]}),
    lambda m: m.get_in(["b"], {}, 3), lambda m: m.get_in(["b"], {}, no_default=True), lambda m: m.getter(1)("ab"),
    lambda m: m.getter([0])("ab"), lambda m: m.getter([])("ab"), lambda m: m.getter([0, 1])("ab"),
    lambda m: m.groupby(len, ["a", "bc", "d"]), lambda m: m.groupby(0, ["ab", "ac", "b"]),
    lambda m: m.groupby([0, 1], ["ab", "abc"]), lambda m: m.groupby(operator.neg, [1, 1, 2]),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_as_pytorch_has_it(number):
    found = []
    for path in PATHS:
        module = importlib.import_module(f"{path}.fx.experimental.unification.unification_tools")
        try:
            found.append(CALLS[number](module))
        except Exception as error:  # noqa: BLE001 - compared
            found.append(type(error))
    assert found[0] == found[1]
