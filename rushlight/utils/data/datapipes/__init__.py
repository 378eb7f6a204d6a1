"""Data pipes: datasets that are functions of others."""
from . import iter

__all__ = ["functional_datapipe", "iter"]


def functional_datapipe(name, enable_df_api_tracing=False):
    """Makes a class of pipes a method of all of them, under a name."""
    def enter(cls):
        if hasattr(iter.IterDataPipe, name):
            raise Exception(f"Unable to add DataPipe function name {name} as it is already taken")
        setattr(iter.IterDataPipe, name, lambda self, *args, **kwargs: cls(self, *args, **kwargs))
        return cls
    return enter
