"""Functions of the items of another pipe."""
from __future__ import annotations

from ...collate import default_collate
from ..datapipe import IterDataPipe, functional_datapipe
from ..utils.common import validate_input_col

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe):
    """A function of each item of another pipe, or of some of its columns.

    Items with columns are tuples, lists or dicts. ``input_col``: the one, or those, that the function takes;
    ``output_col``: the one, or those, that its result replaces, -1 for one more at the end; where it is not given the
    result replaces the first of ``input_col``. ValueError for ``output_col`` alone.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([(1, 2)]).map(lambda x: x * 10, input_col=1))
    [(1, 20)]
    """

    def __init__(self, datapipe, fn, input_col=None, output_col=None):
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        validate_input_col(fn, input_col)
        self.datapipe, self.fn, self.input_col, self.output_col = datapipe, fn, input_col, output_col

    def _apply_fn(self, data):
        given, target = self.input_col, self.output_col
        if given is None:
            return self.fn(data)
        several = isinstance(given, (list, tuple))
        made = self.fn(*(data[column] for column in given)) if several else self.fn(data[given])
        kind, data = type(data), list(data) if isinstance(data, tuple) else data.copy()
        if target == -1 and not isinstance(data, dict):
            data.append(made)
        elif target is not None:
            data[target] = made
        else:
            data[given[0] if several else given] = made
            for column in sorted(given[1:], reverse=True) if several else ():
                del data[column]
        return tuple(data) if kind is tuple else data

    def __iter__(self):
        for item in self.datapipe:
            yield self._apply_fn(item)

    def __len__(self):
        return len(self.datapipe)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Each item of another pipe, a list of samples, as one batch of tensors."""

    def __init__(self, datapipe, conversion=default_collate, collate_fn=None):
        function = conversion if collate_fn is None else collate_fn
        if isinstance(function, dict):
            function = _Columns(function)
        super().__init__(datapipe, fn=function)


class _Columns:
    """Collates columns of dicts each by its own function."""

    def __init__(self, functions):
        self.functions = functions

    def __call__(self, samples):
        return {name: self.functions.get(name, default_collate)([s[name] for s in samples]) for name in samples[0]}
