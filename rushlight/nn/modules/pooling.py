"""Pooling layers."""
from __future__ import annotations

from .. import functional as F
from .module import Module


def family(name) -> type:
    """The class that layers of one kind have in common, whatever their rank: ``_MaxPoolNd`` of ``MaxPool2d``."""
    common = f"_{name[:-2]}Nd"
    if common not in globals():
        globals()[common] = type(common, (Module,),
                                 {"__module__": __name__, "__doc__": f"What {name[:-2]} layers are."})
    return globals()[common]


def pooling_class(name, doc, names, defaults, show, function):
    """A layer whose constructor arguments are kept as attributes and passed on to a function."""
    class Made(family(name)):
        def __init__(self, *args, **kwargs):
            super().__init__()
            if len(args) > len(names):
                raise TypeError(
                    f"{name}.__init__() takes at most {len(names)} arguments ({', '.join(names)}) but {len(args)} "
                    "were given")
            given = {**dict(zip(names, args)), **kwargs}
            for key in given:
                if key not in names:
                    raise TypeError(f"{name}.__init__() got an unexpected keyword argument '{key}'")
            for key in names:
                if key not in given and key not in defaults:
                    raise TypeError(f"{name}.__init__() missing 1 required positional argument: '{key}'")
                setattr(self, key, given.get(key, defaults.get(key)))
            if "stride" in names and self.stride is None and not name.startswith("LP"):
                self.stride = self.kernel_size

        def forward(self, input, *more, **named):
            return function(self, input, *more, **named)

        def extra_repr(self):
            return show.format(**{key: getattr(self, key) for key in names})

    Made.__name__ = Made.__qualname__ = name
    Made.__doc__ = doc
    return Made


def max_pool(rank):
    names = ("kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode")
    return pooling_class(f"MaxPool{rank}d", "The maximum of every window.", names,
                         {"stride": None, "padding": 0, "dilation": 1, "return_indices": False, "ceil_mode": False},
                         "kernel_size={kernel_size}, stride={stride}, padding={padding}, dilation={dilation}, "
                         "ceil_mode={ceil_mode}",
                         lambda m, x: getattr(F, f"max_pool{rank}d")(x, m.kernel_size, m.stride, m.padding, m.dilation,
                                                                     ceil_mode=m.ceil_mode,
                                                                     return_indices=m.return_indices))


def single(value):
    return (value,) if isinstance(value, int) else tuple(value)


def avg_pool(rank):
    names = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad") + ("divisor_override",) * (rank > 1)
    defaults = {"stride": None, "padding": 0, "ceil_mode": False, "count_include_pad": True, "divisor_override": None}
    made = pooling_class(f"AvgPool{rank}d", "The mean of every window.", names, defaults,
                         "kernel_size={kernel_size}, stride={stride}, padding={padding}",
                         lambda m, x: getattr(F, f"avg_pool{rank}d")(x, m.kernel_size, m.stride, m.padding, m.ceil_mode,
                                                                     m.count_include_pad,
                                                                     getattr(m, "divisor_override", None)))
    if rank == 1:
        made.extra_repr = lambda m: (f"kernel_size={single(m.kernel_size)}, stride={single(m.stride)}, "
                                     f"padding={single(m.padding)}")
    return made


def adaptive_avg(rank):
    return pooling_class(f"AdaptiveAvgPool{rank}d", "The mean of nearly equal parts.", ("output_size",), {},
                         "output_size={output_size}",
                         lambda m, x: getattr(F, f"adaptive_avg_pool{rank}d")(x, m.output_size))


def adaptive_max(rank):
    return pooling_class(f"AdaptiveMaxPool{rank}d", "The maximum of nearly equal parts.",
                         ("output_size", "return_indices"), {"return_indices": False}, "output_size={output_size}",
                         lambda m, x: getattr(F, f"adaptive_max_pool{rank}d")(x, m.output_size, m.return_indices))


def lp_pool(rank):
    return pooling_class(f"LPPool{rank}d", "The p-norm of every window.",
                         ("norm_type", "kernel_size", "stride", "ceil_mode"), {"stride": None, "ceil_mode": False},
                         "norm_type={norm_type}, kernel_size={kernel_size}, stride={stride}, ceil_mode={ceil_mode}",
                         lambda m, x: getattr(F, f"lp_pool{rank}d")(x, float(m.norm_type), m.kernel_size, m.stride,
                                                                    m.ceil_mode))


def fractional(rank):
    names = ("kernel_size", "output_size", "output_ratio", "return_indices", "_random_samples")
    made = pooling_class(f"FractionalMaxPool{rank}d",
                         "The maximum of windows that start at pseudo-random places (Graham 2014).", names,
                         {"output_size": None, "output_ratio": None, "return_indices": False, "_random_samples": None},
                         "",
                         lambda m, x: getattr(F, f"fractional_max_pool{rank}d")(x, m.kernel_size, m.output_size,
                                                                                m.output_ratio, m.return_indices,
                                                                                m._random_samples))
    start = made.__init__

    def __init__(self, *args, **kwargs):
        start(self, *args, **kwargs)
        self.register_buffer("_random_samples", self.__dict__.pop("_random_samples"))
        if (self.output_size is None) == (self.output_ratio is None):
            raise ValueError(
                f"FractionalMaxPool{rank}d requires specifying either an output size, or a pooling ratio: exactly one "
                "of output_size and output_ratio")

    made.__init__ = __init__
    return made


def tupled(value, rank):
    return (value,) * rank if isinstance(value, int) else tuple(value)


def unpool(rank):
    made = pooling_class(f"MaxUnpool{rank}d", "Maxima put back where max pooling found them.",
                         ("kernel_size", "stride", "padding"), {"stride": None, "padding": 0},
                         "kernel_size={kernel_size}, stride={stride}, padding={padding}",
                         lambda m, x, indices, output_size=None: getattr(F, f"max_unpool{rank}d")(
                             x, indices, m.kernel_size, m.stride, m.padding, output_size))
    start = made.__init__

    def __init__(self, *args, **kwargs):
        start(self, *args, **kwargs)
        for key in ("kernel_size", "stride", "padding"):
            setattr(self, key, tupled(getattr(self, key), rank))

    made.__init__ = __init__
    return made


MaxPool1d, MaxPool2d, MaxPool3d = map(max_pool, (1, 2, 3))
AvgPool1d, AvgPool2d, AvgPool3d = map(avg_pool, (1, 2, 3))
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = map(adaptive_avg, (1, 2, 3))
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = map(adaptive_max, (1, 2, 3))
FractionalMaxPool2d, FractionalMaxPool3d = map(fractional, (2, 3))
LPPool1d, LPPool2d, LPPool3d = map(lp_pool, (1, 2, 3))
MaxUnpool1d, MaxUnpool2d, MaxUnpool3d = map(unpool, (1, 2, 3))
