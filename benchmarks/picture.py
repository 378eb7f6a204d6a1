"""The picture of the first page: first compiled steps and compiled steps, ours and torch.compile's.

    python -m benchmarks.picture benchmarks/results/amd-epyc-zen-5.json docs/steps.svg

Figures are those of ``benchmarks.compile``.  It needs the extra ``rushlight[plot]``.
"""
import argparse
import json
import pathlib

OURS, THEIRS = "#d95f02", "#9aa5b1"
LEFT_OUT = ("lstm-train",)  # torch.compile compiles no LSTM


def panel(axes, title, unit, names, theirs, ours):
    """Two bars a model, one above the other; the numbers stand at their ends."""
    places = range(len(names))
    for values, offset, color, label in ((theirs, -0.2, THEIRS, "torch.compile"), (ours, 0.2, OURS, "rushlight")):
        bars = axes.barh([k + offset for k in places], values, 0.38, color=color, label=label)
        axes.bar_label(bars, [f"{value:.{int(value < 100)}f}" for value in values], padding=2, fontsize=7)
    axes.set_yticks(list(places), names)
    axes.invert_yaxis()
    axes.set_title(f"{title}, {unit}", loc="left", fontsize=10)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.tick_params(length=0, labelsize=8)
    axes.set_xticks([])


def draw(found: dict, path):
    """Writes the picture of figures as they stand in ``benchmarks/results/``."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    rows = {name: row for name, row in found["figures"].items()
            if name not in LEFT_OUT and {"step_ms", "start_s"} <= set(row)}
    matplotlib.rcParams.update({"svg.hashsalt": "rushlight", "svg.fonttype": "none"})
    figure, (start, step) = plt.subplots(1, 2, figsize=(9, 5), layout="constrained")
    panel(start, "First compiled step of a fresh process", "seconds", list(rows),
          *([row["start_s"][system]["cold"] for row in rows.values()] for system in ("torch.compile",
                                                                                     "rushlight.compile")))
    panel(step, "A compiled step", "milliseconds", list(rows),
          *([row["step_ms"][system] for row in rows.values()] for system in ("torch.compile", "rushlight.compile")))
    step.set_yticklabels([])
    start.legend(frameon=False, fontsize=8, loc="upper right")
    figure.suptitle(found["processor"], fontsize=8, x=0.99, ha="right", color="#555555")
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path, help="a file of benchmarks/results/")
    parser.add_argument("picture", help="the file that is written")
    options = parser.parse_args()
    draw(json.loads(options.results.read_text())["compile"], options.picture)


if __name__ == "__main__":
    main()
