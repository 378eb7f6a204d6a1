"""Pictures of what happens when: spans of time in rows, as an SVG or for chrome://tracing."""
from __future__ import annotations

import html
import json
from dataclasses import dataclass

COLOURS = {"forward": "#4c78a8", "backward": "#f58518", "exchange": "#54a24b", "optimizer": "#b279a2"}
ROW, WIDTH, LEFT = 24, 1000, 80


@dataclass(frozen=True)
class Span:
    """An activity of a row from ``begin`` to ``end`` (seconds)."""

    row: int
    kind: str
    name: str
    begin: float
    end: float


def chrome(spans) -> str:
    """The spans in the JSON of chrome://tracing and Perfetto."""
    return json.dumps({"traceEvents": [{"name": s.name, "cat": s.kind, "ph": "X", "pid": 0, "tid": s.row,
                                        "ts": s.begin * 1e6, "dur": (s.end - s.begin) * 1e6} for s in spans]})


def svg(spans, title: str = "") -> str:
    """The spans as a picture: a row each, time to the right."""
    whole = max((s.end for s in spans), default=0.0) or 1.0
    rows = 1 + max((s.row for s in spans), default=0)
    height = ROW * (rows + 2)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 10}" height="{height}" '
             'font-family="sans-serif" font-size="11">',
             f'<text x="4" y="14">{html.escape(title)} {whole * 1e3:.2f} ms</text>']
    lines += [f'<text x="4" y="{ROW * (row + 1) + 15}">stage {row}</text>' for row in range(rows)]
    for s in spans:
        x, width = LEFT + s.begin / whole * WIDTH, max((s.end - s.begin) / whole * WIDTH, 0.5)
        lines.append(f'<rect x="{x:.2f}" y="{ROW * (s.row + 1)}" width="{width:.2f}" height="{ROW - 4}" '
                     f'fill="{COLOURS[s.kind]}"><title>{html.escape(s.name)}: {s.begin * 1e3:.3f} to '
                     f'{s.end * 1e3:.3f} ms</title></rect>')
    return "\n".join([*lines, "</svg>"]) + "\n"
