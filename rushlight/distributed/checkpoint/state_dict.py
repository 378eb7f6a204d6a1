"""State of modules over several processes: not here."""
from ...compat.absent import absent

globals().update(absent("torch.distributed.checkpoint.state_dict", "this build runs in one process", "get_state_dict set_state_dict get_model_state_dict set_model_state_dict get_optimizer_state_dict set_optimizer_state_dict StateDictOptions"))
