"""Some items."""
from __future__ import annotations

from ..datapipe import IterDataPipe, functional_datapipe
from ..utils.common import StreamWrapper, validate_input_col

__all__ = ["FilterIterDataPipe"]


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe):
    """The items for which a function is true.  ValueError where it gives no bool."""

    def __init__(self, datapipe, filter_fn, input_col=None):
        validate_input_col(filter_fn, input_col)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def _wanted(self, item):
        column = self.input_col
        if column is None:
            found = self.filter_fn(item)
        elif isinstance(column, (list, tuple)):
            found = self.filter_fn(*(item[c] for c in column))
        else:
            found = self.filter_fn(item[column])
        if getattr(found, "shape", None) == ():
            found = found.item()
        if not isinstance(found, bool):
            raise ValueError("Boolean output is required for `filter_fn` of FilterIterDataPipe, got", type(found))
        return found

    def __iter__(self):
        for item in self.datapipe:
            if self._wanted(item):
                yield item
            else:
                StreamWrapper.close_streams(item)
