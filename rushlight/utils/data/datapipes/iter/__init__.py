"""Pipes that are iterated."""
from ..datapipe import IterDataPipe  # noqa: F401
from .callable import CollatorIterDataPipe as Collator, MapperIterDataPipe as Mapper  # noqa: F401
from .combinatorics import SamplerIterDataPipe as Sampler, ShufflerIterDataPipe as Shuffler  # noqa: F401
from .combining import (ConcaterIterDataPipe as Concater, DemultiplexerIterDataPipe as Demultiplexer,  # noqa: F401
                        ForkerIterDataPipe as Forker, MultiplexerIterDataPipe as Multiplexer,
                        ZipperIterDataPipe as Zipper)
from .filelister import FileListerIterDataPipe as FileLister  # noqa: F401
from .fileopener import FileOpenerIterDataPipe as FileOpener  # noqa: F401
from .grouping import (BatcherIterDataPipe as Batcher, GrouperIterDataPipe as Grouper,  # noqa: F401
                       UnBatcherIterDataPipe as UnBatcher)
from .routeddecoder import RoutedDecoderIterDataPipe as RoutedDecoder  # noqa: F401
from .selecting import FilterIterDataPipe as Filter  # noqa: F401
from .sharding import ShardingFilterIterDataPipe as ShardingFilter  # noqa: F401
from .streamreader import StreamReaderIterDataPipe as StreamReader  # noqa: F401
from .utils import IterableWrapperIterDataPipe as IterableWrapper  # noqa: F401
