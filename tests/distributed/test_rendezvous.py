"""How processes find one another: addresses, and stores that a program writes."""
import pytest
import torch.distributed as theirs

import rushlight.distributed as ours

LIBRARIES = (ours, theirs)
WRONG = {"no rank": "tcp://127.0.0.1:1?world_size=1", "no world": "tcp://127.0.0.1:1?rank=0",
         "no port": "tcp://127.0.0.1?rank=0&world_size=1", "no path": "file://?rank=0&world_size=1",
         "no rank of a file": "file:///tmp/x?world_size=1", "no world of a file": "file:///tmp/x?rank=0",
         "no scheme": "nonsense://"}


@pytest.mark.parametrize("case", WRONG)
def test_addresses_that_say_too_little(case):
    def said(dist):
        with pytest.raises((ValueError, RuntimeError)) as error:
            next(dist.rendezvous(WRONG[case]))
        return error.type, str(error.value)
    assert said(ours) == said(theirs)


@pytest.mark.parametrize("given", [("file:///x?rank=0&world_size=1", 0, 1), ("tcp://h:1", "0", 1), ("tcp://h:1", 0, 1.),
                                   (3, 0, 1), ("nonsense://", 0, 1)])
def test_refused_at_once(given):
    for dist in LIBRARIES:
        with pytest.raises((AssertionError, RuntimeError)) as error:
            dist.rendezvous(*given)
        assert error.type is (AssertionError if "?" in str(given[0]) else RuntimeError)


def test_handlers_find_rank_and_world_in_the_address():
    def run(dist):
        seen = []

        def handler(url, timeout=None):
            seen.append((url, timeout))
            yield dist.HashStore(), 1, 2

        dist.register_rendezvous_handler("seen", handler)
        _, rank, size = next(dist.rendezvous("seen://host:3?a=b", 1, 2, timeout=5))
        with pytest.raises(RuntimeError, match="already registered"):
            dist.register_rendezvous_handler("tcp", handler)
        return seen, rank, size
    assert run(ours) == run(theirs)


def test_servers_are_chosen_by_the_address_and_the_environment(monkeypatch):
    def run(dist):
        found = []
        for query in ("", "&use_libuv=0"):
            for setting in ("0", "1"):
                monkeypatch.setenv("USE_LIBUV", setting)
                store, _, _ = next(dist.rendezvous(f"tcp://127.0.0.1:0?rank=0&world_size=1{query}"))
                found.append(store.libuvBackend)
        return found
    assert run(ours) == run(theirs)


class Written:
    """Functions of a store that a program writes."""

    def __init__(self):
        super().__init__()
        self.found = {}

    def set(self, key, value):
        self.found[key] = value if isinstance(value, bytes) else value.encode()

    def get(self, key):
        return self.found.get(key, b"")

    def compare_set(self, key, expected, desired):
        if self.found.get(key, expected) == expected:
            self.found[key] = desired
        return self.found[key]


def test_stores_with_few_functions_append():
    def run(dist):
        inside = type("Mine", (Written, dist.Store), {})()
        store = dist.PrefixStore("p", inside)
        store.append("x", b"po")
        store.append("x", b"tato")
        store.multi_set(["a", "b"], [b"c", b"d"])
        return store.multi_get(["a", "b", "x"]), store.has_extended_api()
    assert run(ours) == run(theirs)
    store = type("Mine", (Written, ours.Store), {})()
    for value in (b"ab", b"ab", b"", b"c"):  # a value that stands there already is appended, too
        store.append("x", value)
    assert store.get("x") == b"ababc"


def test_stores_below_all_prefixes():
    for dist in LIBRARIES:
        inside = dist.HashStore()
        store = dist.PrefixStore("a", dist.PrefixStore("b", inside))
        store.set("x", "1")
        assert store._underlying_non_prefix_store.get("b/a/x") == b"1"


def test_a_world_of_none_has_no_store():
    for dist in LIBRARIES:
        with pytest.raises(ValueError, match="world size cannot be 0"):
            dist.TCPStore("localhost", 0, world_size=0, is_master=False)
