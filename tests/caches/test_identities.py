"""What is found on disk is what would be made: operators' samples planned anew, as one of many sizes, and read back,
however these follow each other."""
import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402
from rushlight._src.core import op as operators  # noqa: E402
from rushlight._src.core.settings import settings  # noqa: E402
from rushlight._src.eager import polymorphic, store  # noqa: E402
from tests.eager.test_polymorphic import grown  # noqa: E402
from tests.ops.test_every_form import results, same  # noqa: E402
from tests.ops.test_samples import SAMPLED, arguments  # noqa: E402

SOME = SAMPLED[::12], SAMPLED[6::12]


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """identity -> what the operators of that identity run, of all that are named while a test runs."""
    found, name_backward = {}, store.name_backward

    def named(plan, *rows):
        name_backward(plan, *rows)
        for operator in (plan.derived, plan.donating, *plan.derived.caches.get("recorded", ())[:1]):
            graph = operator and operator.traits["derived"]
            if graph and not isinstance(graph, store.Underived):
                identity = operator.caches["identities"][plan.constants] if plan.constants else operator.traits[
                    "identity"]
                if plan.constants:  # one operator for all sizes has an identity for each
                    graph = polymorphic.Settling(graph, dict(zip(operator.traits["symbols"].values(), plan.constants)))
                shown = store.deferred(graph)[0], operator.traits.get("donated"), plan.saves[
                    :len(operator.traits["inputs"])]
                assert found.setdefault(identity, shown)[:2] == shown[:2]

    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(store, "name_backward", named)
    with settings.set(store=True):
        yield found


@pytest.mark.parametrize("some", [SOME[0], pytest.param(SOME[1], marks=pytest.mark.long)], ids=["even", "odd"])
def test_plans_of_one_identity_are_one_program_whichever_way_they_came_about(some, programs, monkeypatch):
    told = polymorphic.PendingCall.symbols

    def symbols(call):
        sizes = polymorphic.given_sizes(call.op, call.key)
        found = told(call) if sizes else polymorphic.InferredSymbols(call.key, grown(call.key))
        return found if sizes or found.found else None

    def forget():
        operators.forget()
        rl.manual_seed(0)

    for name, k in some:
        sample = operators.OPS[name].traits["samples"][k]
        values = arguments(name, sample)

        def computed():
            forget()
            found, slopes = results(name, sample, values, rl.tensor)
            return [*found, *slopes]

        first = computed()
        same(computed(), first)
        with monkeypatch.context() as patch:
            patch.setattr(polymorphic.PendingCall, "symbols", symbols)
            patch.setattr(store, "get", lambda entry: None)
            # another process, which stops before its backward pass
            patch.setattr(rl.autograd, "grad", lambda results, *_, **__: [])
            computed()
        same(computed(), first)
    assert len(programs) > 30
