"""Report the cause of a failed distributed run, and where ranks diverged, from the ranks' flight recorders.

The report has the rank to blame (``blame.py``), then the first collective of each group that differs, is unfinished, or
is missing in some rank.

    python -m rushlight.tools.flight DIRECTORY [--prefix rushlight_trace_rank_] [--last 5]
"""
from __future__ import annotations

import argparse
from pathlib import Path

from .._src.plain_pickles import load_plain
from .blame import SHAPES_DIFFER, blame

SAME = ("profiling_name", "input_sizes", "input_dtypes")


def loaded(folder, prefix: str) -> dict:
    """Return {rank: trace} of the files in a directory whose names are the prefix and a rank.

    FileNotFoundError where there is none.
    """
    found = {}
    for path in Path(folder).glob(f"{prefix}*"):
        rank = path.name[len(prefix):]
        if rank.isdigit():
            found[int(rank)] = load_plain(path.read_bytes())
    if not found:
        raise FileNotFoundError(f"no file {prefix}RANK in {folder}")
    return dict(sorted(found.items()))


def members(traces: dict) -> dict:
    """{group: its ranks}, by what any rank knows."""
    found = {}
    for trace in traces.values():
        for name, group in trace["pg_config"].items():
            found[name] = [int(rank) for rank in group["ranks"].strip("[]").split(",") if rank.strip()]
    return found


def by_number(trace: dict, group: str) -> dict:
    ours = [entry for entry in trace["entries"] if entry["process_group"][0] == group]
    return {entry["collective_seq_id"]: entry for entry in ours if not entry["is_p2p"]}


def parting(traces: dict, group: str, ranks: list):
    """(number, {rank: entry or None}, why) of the first exchange at which ranks of a group differ.

    None where they do not.
    """
    known = {rank: by_number(traces[rank], group) for rank in ranks if rank in traces}
    numbers = sorted({number for entries in known.values() for number in entries})
    first = max((min(entries) for entries in known.values() if entries), default=0)  # rings begin at different places
    for number in numbers:
        if number < first:
            continue
        at = {rank: entries.get(number) for rank, entries in known.items()}
        missing = [rank for rank, entry in at.items() if entry is None] + [rank for rank in ranks if rank not in traces]
        there = [entry for entry in at.values() if entry is not None]
        for field in SAME:
            if field == "input_sizes" and there[0]["profiling_name"].endswith(SHAPES_DIFFER):
                continue
            if any(entry[field] != there[0][field] for entry in there):
                return number, at, f"ranks differ in {field.replace('_', ' ')}"
        if missing:
            return number, at, f"rank {', '.join(map(str, missing))} has not come"
        late = [rank for rank, entry in at.items() if entry["state"] != "completed"]
        if late:
            return number, at, f"rank {', '.join(map(str, late))} is not done"
    return None


def described(entry) -> str:
    if entry is None:
        return "nothing"
    place = next((f for f in entry["frames"] if "rushlight/distributed" not in f["filename"]), None)
    where = f" at {place['filename']}:{place['line']} in {place['name']}" if place else ""
    return f"{entry['profiling_name']} of {entry['output_sizes']} {entry['output_dtypes']}, {entry['state']}{where}"


def report(traces: dict, last: int = 0) -> str:
    """Return the findings as text."""
    lines = [f"ranks with a trace: {', '.join(map(str, traces))}"]
    found = blame(traces)
    lines += [str(found)] if found else []
    lines += [f"rank {rank}: {trace['reason']}" for rank, trace in traces.items() if trace.get("reason")]
    for group, ranks in members(traces).items():
        found = parting(traces, group, ranks)
        if found is None:
            lines.append(f"group {group} of ranks {ranks}: nothing differs")
            continue
        number, at, why = found
        lines.append(f"group {group} of ranks {ranks}: collective {number}: {why}")
        lines += [f"  rank {rank}: {described(entry)}" for rank, entry in at.items()]
    for rank, trace in traces.items() if last else ():
        lines.append(f"last of rank {rank}:")
        for entry in trace["entries"][-last:]:
            lines.append(f"  {entry['process_group'][0]} {entry['collective_seq_id']}: {described(entry)}")
    return "\n".join(lines)


def main(arguments=None):
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("folder")
    reader.add_argument("--prefix", "-p", default="rushlight_trace_rank_")
    reader.add_argument("--last", type=int, default=0, help="how many of each rank's last exchanges are shown too")
    options = reader.parse_args(arguments)
    print(report(loaded(options.folder, options.prefix), options.last))


if __name__ == "__main__":
    main()
