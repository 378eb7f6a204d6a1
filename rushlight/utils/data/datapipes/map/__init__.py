"""Pipes with keys."""
from ..datapipe import MapDataPipe  # noqa: F401
from .callable import MapperMapDataPipe as Mapper  # noqa: F401
from .combinatorics import ShufflerIterDataPipe as Shuffler  # noqa: F401
from .combining import ConcaterMapDataPipe as Concater, ZipperMapDataPipe as Zipper  # noqa: F401
from .grouping import BatcherMapDataPipe as Batcher  # noqa: F401
from .utils import SequenceWrapperMapDataPipe as SequenceWrapper  # noqa: F401
