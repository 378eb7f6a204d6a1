"""``torch.monitor``: not here."""
from .compat.absent import absent

globals().update(absent("torch.monitor", "nothing is counted by the framework: use torch.profiler, or utils.tensorboard for figures of one's own",
                        "Aggregation Event EventHandlerHandle Stat TensorboardEventHandler data_value_t log_event register_event_handler unregister_event_handler"))
