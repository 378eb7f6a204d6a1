"""Every number of every operator of PyTorch's database, before and after the operator has seen others: the same results
and errors, PyTorch's refusals, and no plan for each new number."""
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import rushlight as rl  # noqa: E402
from tests.ops.database import by_meaning, title  # noqa: E402, F401 - the fixture

from .numbers import NEW, SEEN, SPECIAL, counted_plans, places, planned_one_by_one  # noqa: E402

ORDER = "the order decides which sum is computed"
SPELLING = "TypeError", "OperandError"  # of samples whose arguments come in another order than those of users' calls
FRAMES = "the count of frames follows from their length, by quotients"
# (entry, number): why each value has a plan
BY_VALUE = {("polygamma", 0): ORDER, ("special.polygamma", 0): ORDER, ("stft", "n_fft"): FRAMES}
ALIKE = "conv_transpose3d", "conv3d"  # bodies of fewer dimensions, whose reference takes minutes
ENTRIES = {title(info): info for info in op_db if not info.name.endswith(ALIKE)}


@pytest.mark.sampled
@pytest.mark.parametrize("name", ENTRIES)
def test_numbers_seen_before_change_nothing(name, monkeypatch):
    wrong = []
    for place in places(ENTRIES[name]):
        special = SPECIAL[type(place.base)]
        with planned_one_by_one(monkeypatch):
            alone = [place.outcome(value) for value in special]
        taken = place.take(0, SEEN)
        for value, wanted in zip(special, alone):
            found = place.outcome(value)
            if found != wanted:
                wrong.append(f"{place} {value!r}: {str(found)[:200]}, and alone {str(wanted)[:200]}")
            elif type(found) is not str and type(place.run(torch, value)) is str:
                wrong.append(f"{place} {value!r} is taken; PyTorch: {place.run(torch, value)[:200]}")
        own = place.run(rl, place.base)
        if type(own) is str and not own.startswith(SPELLING) and type(place.run(torch, place.base)) is not str:
            wrong.append(f"{place}: {own}")
        with counted_plans(monkeypatch) as made:
            taken += place.take(SEEN, NEW)
        if made and taken == SEEN + NEW and (ENTRIES[name].name, place.at) not in BY_VALUE:
            wrong.append(f"{place}: new numbers make plans of {sorted(set(made))}")
    assert not wrong, "\n".join(wrong)
