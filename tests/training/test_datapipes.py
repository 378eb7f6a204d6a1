"""Data pipes give what PyTorch's give: items, lengths, errors, orders of a seed, parts of workers."""
import functools
import io
import json
import pickle
import warnings

import numpy as np
import pytest
import torch as judge

import rushlight as torch

BOTH = (judge, torch)


def pipes(t):
    return (__import__(f"{t.__name__}.utils.data.datapipes.iter", fromlist=["x"]),
            __import__(f"{t.__name__}.utils.data.datapipes.map", fromlist=["x"]))


def shown(value):
    return json.loads(json.dumps(value, default=lambda v: list(v) if hasattr(v, "__iter__") else repr(v)))


def lengths(pipe):
    try:
        return len(pipe)
    except TypeError:
        return None


def outcome(build, t):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            i, m = pipes(t)
            made = build(i, m)
            if isinstance(made, list):
                return [shown(list(p)) for p in made]
            return shown(list(made)), lengths(made), repr(type(made).__name__)
        except Exception as error:  # noqa: BLE001 - compared
            return type(error).__name__


def up(x):
    return x + 1


def odd(x):
    return x % 2


SAME = [
    lambda i, m: i.IterableWrapper(range(7)), lambda i, m: i.IterableWrapper(range(7)).batch(2),
    lambda i, m: i.IterableWrapper(range(7)).batch(2, drop_last=True),
    lambda i, m: i.IterableWrapper(range(7)).batch(2).batch(2).unbatch(unbatch_level=2),
    lambda i, m: i.IterableWrapper(range(7)).batch(2).batch(2).unbatch(unbatch_level=-1),
    lambda i, m: i.IterableWrapper(range(3)).unbatch(), lambda i, m: i.IterableWrapper(range(3)).unbatch(-2),
    lambda i, m: i.IterableWrapper(range(7)).map(up), lambda i, m: i.IterableWrapper(range(7)).filter(lambda x: x > 2),
    lambda i, m: i.IterableWrapper(range(7)).filter(lambda x: x), lambda i, m: i.IterableWrapper(range(7)).batch(0),
    lambda i, m: i.IterableWrapper([(1, 2), (3, 4)]).map(up, input_col=0, output_col=1),
    lambda i, m: i.IterableWrapper([(1, 2), (3, 4)]).map(up, input_col=0, output_col=-1),
    lambda i, m: i.IterableWrapper([[1, 2, 3]]).map(lambda a, b: a + b, input_col=[0, 2]),
    lambda i, m: i.IterableWrapper([{"a": 1}]).map(up, input_col="a", output_col="b"),
    lambda i, m: i.IterableWrapper([(1, 2)]).map(up, output_col=1),
    lambda i, m: i.IterableWrapper([(1, 2)]).map(lambda a, b: a, input_col=0),
    lambda i, m: i.IterableWrapper([(1, 2), (5, 0)]).filter(lambda a: a > 2, input_col=0),
    lambda i, m: i.IterableWrapper(range(9)).shuffle(buffer_size=3).set_seed(5),
    lambda i, m: i.IterableWrapper(range(9)).shuffle().set_seed(5),
    lambda i, m: i.IterableWrapper("ab").shuffle(buffer_size=0),
    lambda i, m: i.IterableWrapper(range(9)).shuffle().set_shuffle(False),
    lambda i, m: i.IterableWrapper(range(9)).fork(2), lambda i, m: i.IterableWrapper(range(9)).fork(0),
    lambda i, m: i.IterableWrapper(range(9)).fork(2, buffer_size=3), lambda i, m: i.IterableWrapper(range(9)).fork(1),
    lambda i, m: i.IterableWrapper(range(9)).demux(2, odd), lambda i, m: i.IterableWrapper(range(9)).demux(1, odd),
    lambda i, m: i.IterableWrapper([1, None]).demux(2, lambda x: x, drop_none=True),
    lambda i, m: i.IterableWrapper(range(4)).zip(i.IterableWrapper("abc")),
    lambda i, m: i.IterableWrapper(range(4)).mux(i.IterableWrapper("abc")),
    lambda i, m: i.IterableWrapper(range(4)).concat(i.IterableWrapper("abc")), lambda i, m: i.Concater(),
    lambda i, m: i.IterableWrapper(range(4)).zip(3), lambda i, m: i.IterableWrapper(range(7)).groupby(odd),
    lambda i, m: i.IterableWrapper(range(9)).groupby(lambda x: x % 3, group_size=2, buffer_size=4,
                                                     guaranteed_group_size=1),
    lambda i, m: i.IterableWrapper(range(9)).groupby(odd, keep_key=True),
    lambda i, m: i.IterableWrapper(range(9)).groupby(lambda x: x % 5, buffer_size=3, group_size=3),
    lambda i, m: i.Sampler(i.IterableWrapper(range(4))), lambda i, m: i.IterableWrapper(range(4)).nothing,
    lambda i, m: i.IterableWrapper([("a.txt", io.StringIO("hello"))]).read_from_stream(2),
    lambda i, m: i.IterableWrapper([("a.json", io.BytesIO(b"[1]")), ("b.cls", io.BytesIO(b"7"))]).routed_decode(),
    lambda i, m: m.SequenceWrapper([3, 4, 5]).map(up), lambda i, m: m.SequenceWrapper([3, 4, 5]).batch(2),
    lambda i, m: m.SequenceWrapper([3, 4, 5]).concat(m.SequenceWrapper("ab")),
    lambda i, m: m.SequenceWrapper([3, 4, 5]).zip(m.SequenceWrapper("ab")), lambda i, m: m.Zipper(),
    lambda i, m: m.SequenceWrapper([3, 4, 5, 6]).shuffle().set_seed(3), lambda i, m: m.SequenceWrapper([1]).batch(-1),
]


@pytest.mark.parametrize("number", range(len(SAME)))
def test_items(number):
    assert outcome(SAME[number], torch) == outcome(SAME[number], judge)


def test_methods_are_those_of_pytorch():
    import rushlight.utils.data as data
    for kind in ("IterDataPipe", "MapDataPipe"):
        theirs = {n for n in getattr(judge.utils.data, kind).functions if "dataframe" not in n}
        assert theirs <= set(getattr(data, kind).functions), kind


def test_parts_and_graphs():
    for count, given in ((2, 1), (3, 0), (3, 5)):
        found = []
        for t in BOTH:
            pipe = pipes(t)[0].IterableWrapper(range(10)).shuffle().sharding_filter().batch(2)
            settings = __import__(f"{t.__name__}.utils.data.graph_settings", fromlist=["x"])
            graph = __import__(f"{t.__name__}.utils.data.graph", fromlist=["x"])
            names = [type(p).__name__ for p in settings.get_all_graph_pipes(graph.traverse_dps(pipe))]
            try:
                settings.apply_sharding(pipe, count, given)
                settings.apply_shuffle_settings(pipe, shuffle=False)
                found.append((names, shown(list(pipe)), len(pipe)))
            except ValueError as error:
                found.append((names, str(error)))
        assert found[0] == found[1]


def test_loaders_divide_and_shuffle_pipes():
    pipe = torch.utils.data.datapipes.iter.IterableWrapper(range(12)).shuffle().sharding_filter().map(up)
    loader = torch.utils.data.DataLoader(pipe, batch_size=None, num_workers=2)
    assert sorted(int(x) for x in loader) == list(range(1, 13))
    ordered = torch.utils.data.DataLoader(pipe, batch_size=4, shuffle=False)
    assert torch.cat(list(ordered)).tolist() == list(range(1, 13))
    torch.manual_seed(3)
    first = [x.tolist() for x in torch.utils.data.DataLoader(pipe, batch_size=4, shuffle=True)]
    torch.manual_seed(3)
    assert first == [x.tolist() for x in torch.utils.data.DataLoader(pipe, batch_size=4, shuffle=True)]


def test_pipes_travel():
    i = pipes(torch)[0]
    for pipe in (i.IterableWrapper(range(5)).map(up).batch(2), i.IterableWrapper(range(5)).fork(2)[0]):
        assert shown(list(pickle.loads(pickle.dumps(pipe)))) == shown(list(pipe))


def test_files(tmp_path):
    for name in ("b.txt", "a.txt", "c.csv", "d/e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    for options in ({}, {"masks": "*.txt"}, {"masks": ["*.csv", "a*"], "recursive": True}):
        theirs, ours = (list(pipes(t)[0].FileLister(str(tmp_path), **options)) for t in BOTH)
        assert ours == theirs
    texts = [[(p, s.read()) for p, s in pipes(t)[0].FileLister(str(tmp_path), "*.txt").open_files()] for t in BOTH]
    assert texts[0] == texts[1]


def test_pictures():
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.fromarray(np.arange(24, dtype=np.uint8).reshape(2, 4, 3)).save(file, "png")
    decoders = [__import__(f"{t.__name__}.utils.data.datapipes.utils.decoder", fromlist=["x"]) for t in BOTH]
    assert decoders[0].imagespecs == decoders[1].imagespecs
    for name in decoders[0].imagespecs:
        if name in ("torchl", "torchl8"):
            continue  # PyTorch fails to transpose what has no channels
        theirs, ours = (d.imagehandler(name)("png", file.getvalue()) for d in decoders)
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


def test_another_pipe_by_its_name():
    data = torch.utils.data

    @data.functional_datapipe("twice_of_test")
    class Twice(data.IterDataPipe):
        def __init__(self, source, by=2):
            self.source, self.by = source, by

        def __iter__(self):
            return (x * self.by for x in self.source)

    made = pipes(torch)[0].IterableWrapper([1, 2])
    assert list(made.twice_of_test(by=3)) == [3, 6] and isinstance(made.twice_of_test, functools.partial)
    with pytest.raises(Exception, match="already taken"):
        data.functional_datapipe("twice_of_test")(Twice)
    with pytest.raises(TypeError):
        data.functional_datapipe("x_of_test")(int)
    del data.IterDataPipe.functions["twice_of_test"]
