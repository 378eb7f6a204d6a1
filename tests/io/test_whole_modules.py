"""Whole modules and optimizers in files: each library makes and runs what the other has written."""
import functools
import io
import pickle

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def exchanged(writer, reader, value):
    file = io.BytesIO()
    writer.save(value, file)
    file.seek(0)
    return reader.load(file, weights_only=False)


def numbers(lib, *shape):
    count = functools.reduce(int.__mul__, shape)
    return lib.linspace(-1, 1, count).reshape(shape)


def convolutions(lib):
    nn = lib.nn
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.InstanceNorm2d(4), nn.ZeroPad2d(1), nn.Upsample(scale_factor=2),
                         nn.PixelUnshuffle(2), nn.Flatten(), nn.Linear(4 * 4 * 64, 3)), (1, 3, 8, 8)


def recurrence(lib):
    return lib.nn.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2), (5, 1, 3)


def transformer(lib):
    nn = lib.nn
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True), 1,
                                 norm=nn.LayerNorm(8)), (2, 3, 8)


def functions(lib):
    made = lib.nn.TransformerDecoderLayer(4, 1, 4, activation=lib.tanh)  # an operator as an attribute
    made.first = functools.partial(lib.nn.init.constant_, val=2.0)
    made.pooling, made.kind, made.dtype, made.size = (lib.nn.functional.avg_pool2d, lib.nn.ReLU, lib.float16,
                                                      lib.Size([2]))
    return made, None


@pytest.mark.parametrize("make", [convolutions, recurrence, transformer, functions])
@pytest.mark.parametrize("writer,reader", [(rl, torch), (torch, rl)])
def test_modules(make, writer, reader):
    written, shape = make(writer)
    read = exchanged(writer, reader, written.eval())
    assert type(read) is type(make(reader)[0]) and repr(read) == repr(written)
    if make is functions:
        assert read.first(reader.ones(2)).tolist() == [2.0, 2.0] and read.kind is reader.nn.ReLU
        assert read.activation(reader.zeros(2)).tolist() == [0.0, 0.0] and read.dtype is reader.float16
        assert read.pooling(reader.ones(1, 1, 2, 2), 2).tolist() == [[[[1.0]]]] and type(read.size) is reader.Size
        return
    outputs = []
    for lib, module in ((writer, written), (reader, read)):
        with lib.no_grad():
            result = module(numbers(lib, *shape))
        outputs.append((result[0] if isinstance(result, tuple) else result).tolist())
    torch.testing.assert_close(torch.tensor(outputs[0]), torch.tensor(outputs[1]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["SGD", "AdamW", "RMSprop"])
@pytest.mark.parametrize("writer,reader", [(rl, torch), (torch, rl)])
def test_optimizers(name, writer, reader):
    parameter = writer.nn.Parameter(writer.ones(3))
    optimizer = getattr(writer.optim, name)([parameter], lr=0.1, momentum=0.9) if name != "AdamW" else (
        writer.optim.AdamW([parameter], lr=0.1))
    stepped = [(writer, optimizer)]
    for turn in range(2):
        for lib, each in stepped:
            each.param_groups[0]["params"][0].grad = lib.tensor([1.0, 2.0, -3.0])
            each.step()
        if not turn:
            read = exchanged(writer, reader, optimizer)
            assert type(read) is getattr(reader.optim, name)
            stepped.append((reader, read))
    ours, theirs = (each.param_groups[0]["params"][0].tolist() for _, each in stepped)
    assert ours == pytest.approx(theirs, rel=1e-5)


class Own(rl.nn.Linear):
    pass


def test_names_that_are_not_allowed():
    file = io.BytesIO()
    rl.save({"own": Own(1, 1), "layer": rl.nn.ZeroPad1d(1), "function": rl.nn.functional.relu}, file)
    file.seek(0)
    assert rl.serialization.get_unsafe_globals_in_checkpoint(file) == [
        f"{__name__}.Own", "torch.nn.functional.relu", "torch.nn.modules.padding.ZeroPad1d"]
    file.seek(0)
    with rl.serialization.safe_globals([Own, rl.nn.functional.relu]):
        with pytest.raises(pickle.UnpicklingError, match="torch.nn.modules.padding.ZeroPad1d"):
            rl.load(file)
    allowed, before = [Own, rl.nn.ZeroPad1d, rl.nn.functional.relu], rl.serialization.get_safe_globals()
    with rl.serialization.safe_globals(allowed):
        assert rl.serialization.get_safe_globals() == before + allowed
        file.seek(0)
        read = rl.load(file)
        assert type(read["own"]) is Own and read["layer"](rl.ones(1, 1)).tolist() == [[0.0, 1.0, 0.0]]
        assert read["function"] is rl.nn.functional.relu


def test_pairs_allow_the_given_name_alone():
    file = io.BytesIO()
    rl.save(rl.nn.ReLU(), file)
    for root, is_allowed in (("torch", True), ("rushlight", False)):
        file.seek(0)
        with rl.serialization.safe_globals([(rl.nn.ReLU, f"{root}.nn.modules.activation.ReLU")]):
            if is_allowed:
                assert type(rl.load(file)) is rl.nn.ReLU
            else:
                with pytest.raises(pickle.UnpicklingError, match="torch.nn.modules.activation.ReLU"):
                    rl.load(file)


class OlderPickler(rl.serialization.Pickler):
    """Writes classes by our own names, as earlier versions did."""

    dispatch = dict(rl.serialization.Pickler.dispatch)

    def name_in_files(self, obj):
        return None


def test_files_of_earlier_versions():
    file = io.BytesIO()
    rl.serialization.write_archive(rl.nn.ZeroPad1d(1), file, "archive", pickler=lambda kind, text: OlderPickler(text))
    file.seek(0)
    assert rl.serialization.get_unsafe_globals_in_checkpoint(file) == ["rushlight.nn.modules.rearrange.ZeroPad1d"]
    with rl.serialization.safe_globals([rl.nn.ZeroPad1d]):
        for weights_only in (True, False):
            file.seek(0)
            assert type(rl.load(file, weights_only=weights_only)) is rl.nn.ZeroPad1d
