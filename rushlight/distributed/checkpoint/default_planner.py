"""Plans of checkpoints: not here."""
from ...compat.absent import absent

globals().update(absent("torch.distributed.checkpoint.default_planner", "this build runs in one process", "DefaultLoadPlanner DefaultSavePlanner"))
