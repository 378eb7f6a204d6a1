"""Which of the names that existing model code uses are missing here, by how many models use them:
``python -m benchmarks.census census.json``."""
import importlib
import json
import sys

import rushlight


def present(name: str) -> bool:
    """Whether ``torch.a.b`` or ``Tensor.a`` exists here."""
    name = name.replace(" [prop set]", "").replace(" [prop]", "")
    first, *rest = name.split(".")
    if first not in ("torch", "Tensor"):
        return True  # another library's
    found, path = (rushlight, "rushlight") if first == "torch" else (rushlight.Tensor, "")
    for part in rest:
        path += "." + part
        if not hasattr(found, part):
            try:
                found = importlib.import_module(path)
            except ImportError:
                return False
        else:
            found = getattr(found, part)
    return True


def main():
    with open(sys.argv[1]) as file:
        census = json.load(file)
    for title, counts in (("used by models", census["curves"]["ALL.api"]["counts"]),
                          ("used while libraries are imported", census["import_phase_counts"])):
        missing = [(name, count) for name, count in counts if not present(name)]
        print(f"{title}: {len(counts) - len(missing)} of {len(counts)} names are here; missing, with the number of "
              "models:")
        for name, count in missing:
            print(f"{count:5}  {name}")


if __name__ == "__main__":
    main()
