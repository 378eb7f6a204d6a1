"""Output that is put off: functions that users declare, and that what was printed comes at every call."""
import functools
import logging

import rushlight as torch


def test_functions_that_users_declare():
    seen = []

    def note(text, value, more=()):
        seen.append((text, float(value), len(more)))

    def ignored(value):
        raise RuntimeError("called")

    def f(x):
        y = x + 1
        note("y", y.sum(), more=[1, y])
        ignored(y)
        y.add_(1)
        note("again", y.sum())
        return y

    changes = {"reorderable_logging_functions": {note}, "ignore_logging_functions": {ignored}}
    with torch._dynamo.config.patch(changes):
        compiled = torch.compile(f, fullgraph=True)
        for _ in range(2):
            compiled(torch.zeros(2))
    assert seen == [("y", 2.0, 2), ("again", 4.0, 0)] * 2
    assert torch._dynamo.config.reorderable_logging_functions == set()


class Once(logging.Logger):
    """A logger that remembers what it said."""

    @functools.lru_cache(None)
    def once(self, text, *values):
        self.warning(text, *values)


def test_a_method_of_a_logger_that_remembers(caplog):
    logger = Once("once")
    logger.addHandler(caplog.handler)

    def f(x):
        logger.once("seen %s", "a")
        logger.once("seen %s", "a")
        return x + 1

    compiled = torch.compile(f, fullgraph=True)
    for _ in range(2):
        compiled(torch.zeros(2))
    assert [record.getMessage() for record in caplog.records] == ["seen a"]
    assert caplog.records[0].funcName == "once"
