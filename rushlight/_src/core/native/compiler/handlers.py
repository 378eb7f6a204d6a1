"""Handlers of syntax nodes by their kind."""


def registry():
    """A table from kinds of syntax node to handlers, and the decorator ``handles(*kinds)`` that fills it."""
    handlers = {}

    def handles(*kinds):
        def register(handler):
            handlers.update(dict.fromkeys(kinds, handler))
            return handler

        return register

    return handlers, handles
