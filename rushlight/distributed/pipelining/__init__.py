"""Pipeline parallelism: models split into stages that process microbatches (docs/sharding.md)."""
from ..._src.core.later import later

__all__ = ["Pipe", "pipe_split", "SplitPoint", "pipeline", "PipelineStage", "build_stage", "Schedule1F1B",
           "ScheduleGPipe", "ScheduleInterleaved1F1B", "ScheduleLoopedBFS", "ScheduleInterleavedZeroBubble",
           "ScheduleZBVZeroBubble", "ScheduleDualPipeV"]

__getattr__ = later(__name__, {"_IR": ("Pipe", "pipe_split", "SplitPoint", "pipeline", "annotate_split_points"),
                               "stage": ("PipelineStage", "build_stage"),
                               "schedules": ("Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B",
                                             "ScheduleLoopedBFS", "ScheduleInterleavedZeroBubble",
                                             "ScheduleZBVZeroBubble", "ScheduleDualPipeV")})
