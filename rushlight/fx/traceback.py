"""Source locations of nodes in the user's program."""
from __future__ import annotations

import contextlib
import enum

_current: dict = {}


@contextlib.contextmanager
def annotate(annotation_dict: dict):
    """A block whose traced nodes carry these entries in ``meta["custom"]``."""
    before = dict(_current)
    _current.update(annotation_dict)
    try:
        yield
    finally:
        _current.clear()
        _current.update(before)


@contextlib.contextmanager
def preserve_node_meta(enable=True):
    """A block in which interpreters keep what nodes know: always so here."""
    yield


def has_preserved_node_meta() -> bool:
    return True


def get_current_meta() -> dict:
    """The annotations in force."""
    return dict(_current)


class NodeSourceAction(enum.Enum):
    """Actions of a pass that made a node."""

    CREATE, REPLACE = "create", "replace"


class NodeSource:
    """Provenance of a node: the previous node, its graph, the pass and its action, and the provenance of that node.

    ``node`` may be None: what is known is the pass alone.
    """

    def __init__(self, node, pass_name: str = "", action=None):
        self.pass_name = pass_name
        self.action = [action] if isinstance(action, NodeSourceAction) else list(action or ())
        self.name = "" if node is None else node.name
        self.target = "" if node is None else str(node.target)
        self.graph_id = -1 if node is None else id(node.graph)
        self.from_node = [] if node is None else list(node.meta.get("from_node", ()))

    def to_dict(self) -> dict:
        """Return the same as strings and lists."""
        return {"name": self.name, "target": self.target, "graph_id": self.graph_id, "pass_name": self.pass_name,
                "action": "+".join(a.name.lower() for a in self.action),
                "from_node": [one.to_dict() for one in self.from_node]}

    def __repr__(self):
        return f"NodeSource({self.name!r}, {self.pass_name!r}, {'+'.join(a.value for a in self.action)})"

    def __eq__(self, other):
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self):
        return hash((self.name, self.target, self.graph_id, self.pass_name))
