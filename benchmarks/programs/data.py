"""Small inputs in the formats that programs read, the same at every time: ``python data.py KIND[@FOLDER] FOLDER``."""

from __future__ import annotations

import gzip
import pathlib
import pickle
import struct
import sys

import numpy as np

WORDS = """the a tree river stone light small old bright runs falls sings under over near with and then while of to
dark green slow bird house door""".split()


def text(count, seed=0):
    """Sentences of few words, of which some follow others more often."""
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.full(len(WORDS), 0.3), len(WORDS))
    at, lines, line = 0, [], []
    for _ in range(count):
        at = int(rng.choice(len(WORDS), p=chances[at]))
        line.append(WORDS[at])
        if rng.random() < 0.12:
            lines.append(" ".join(line) + " .")
            line = []
    return "\n".join(lines) + "\n"


def pictures(count, size, channels, classes, seed=0):
    """(uint8 [count, channels, size, size], labels): each class has bars of its own under noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, count)
    images = rng.integers(0, 60, (count, channels, size, size))
    for image, label in zip(images, labels):
        image[:, :, (label * size) // classes : (label * size) // classes + max(size // classes, 1)] += 150
    return images.astype(np.uint8), labels.astype(np.uint8)


def mnist(folder, name="data/MNIST", count=1000):
    raw = folder / name / "raw"
    raw.mkdir(parents=True)
    for part, number, seed in (("train", count, 0), ("t10k", count // 5, 1)):
        images, labels = pictures(number, 28, 1, 10, seed)
        for kind, header, body in (
            ("images-idx3", struct.pack(">iiii", 2051, number, 28, 28), images),
            ("labels-idx1", struct.pack(">ii", 2049, number), labels),
        ):
            data = header + body.tobytes()
            (raw / f"{part}-{kind}-ubyte").write_bytes(data)
            with gzip.open(raw / f"{part}-{kind}-ubyte.gz", "wb") as file:
                file.write(data)


def cifar(folder):
    where = folder / "data" / "cifar-10-batches-py"
    where.mkdir(parents=True)
    for k, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        images, labels = pictures(100, 32, 3, 10, k)
        with open(where / name, "wb") as file:
            pickle.dump(
                {
                    "data": images.reshape(100, -1),
                    "labels": labels.tolist(),
                    "batch_label": name,
                    "filenames": [""] * 100,
                },
                file,
            )
    with open(where / "batches.meta", "wb") as file:
        pickle.dump({"label_names": [str(i) for i in range(10)], "num_cases_per_batch": 100, "num_vis": 3072}, file)


def images(folder, classes=2, count=8, size=64):
    """data/images/{train,val}/<class>/<number>.png."""
    from PIL import Image

    for part, seed in (("train", 0), ("val", 1)):
        drawn, labels = pictures(count * classes, size, 3, classes, seed)
        for k, image in enumerate(drawn):
            where = folder / "data" / "images" / part / f"class{labels[k]}"
            where.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.transpose(1, 2, 0)).save(where / f"{k}.png")


def bsds(folder):
    """dataset/BSDS300/images/{train,test}/<number>.png of 256 x 256."""
    from PIL import Image

    for part, count, seed in (("train", 8, 0), ("test", 2, 1)):
        where = folder / "dataset" / "BSDS300" / "images" / part
        where.mkdir(parents=True)
        for k, image in enumerate(pictures(count, 256, 3, 10, seed)[0]):
            Image.fromarray(image.transpose(1, 2, 0)).save(where / f"{k}.png")


def words(folder):
    """data/words/{train,valid,test}.txt and input.txt."""
    where = folder / "data" / "words"
    where.mkdir(parents=True)
    for part, count, seed in (("train", 6000, 0), ("valid", 800, 1), ("test", 800, 2)):
        (where / f"{part}.txt").write_text(text(count, seed))
    (folder / "input.txt").write_text("O God, O God!\n" + text(8000, 3))  # what one program begins with
    lines = text(2000, 4).splitlines()
    (where / "pairs.txt").write_text("".join(f"{a}\t{b}\n" for a, b in zip(lines, lines[1:])))


def ptb(folder):
    """data/train.txt."""
    (folder / "data").mkdir()
    (folder / "data" / "train.txt").write_text(text(3000))


def nerf(folder):
    """cache/tiny_nerf_data.npz: 4 views of 16 x 16 from a circle around the origin."""
    rng = np.random.default_rng(0)
    (folder / "cache").mkdir()
    poses = np.tile(np.eye(4, dtype=np.float32), (102, 1, 1))
    for pose, angle in zip(poses, np.linspace(0, 6, len(poses))):
        c, s = np.cos(angle), np.sin(angle)
        pose[:3, :3] = [[c, 0, s], [0, 1, 0], [-s, 0, c]]
        pose[:3, 3] = [4 * s, 0, 4 * c]
    np.savez(
        folder / "cache" / "tiny_nerf_data.npz",
        images=rng.random((102, 16, 16, 3), dtype=np.float32),
        poses=poses,
        focal=np.float64(20.0),
    )


def cora(folder):
    """cora/cora.content and cora.cites: 300 papers of 7 classes with 100 words."""
    rng = np.random.default_rng(0)
    where = folder / "cora"
    where.mkdir(parents=True)
    names = [
        "Case_Based",
        "Genetic_Algorithms",
        "Neural_Networks",
        "Probabilistic_Methods",
        "Reinforcement_Learning",
        "Rule_Learning",
        "Theory",
    ]
    kinds = rng.integers(0, 7, 2708)
    chances = rng.random((7, 100)) * 0.1
    lines = (
        f"{1000 + k}\t" + "\t".join(map(str, (rng.random(100) < chances[kind]).astype(int))) + f"\t{names[kind]}"
        for k, kind in enumerate(kinds)
    )
    (where / "cora.content").write_text("\n".join(lines) + "\n")
    cites = set()
    while len(cites) < 5000:
        a, b = rng.integers(0, len(kinds), 2)
        if a != b and (kinds[a] == kinds[b] or rng.random() < 0.1):
            cites.add((1000 + a, 1000 + b))
    (where / "cora.cites").write_text("".join(f"{a}\t{b}\n" for a, b in sorted(cites)))


KINDS = {
    "mnist": mnist,
    "fashion": lambda folder: mnist(folder, "data/FashionMNIST"),
    "mnist_here": lambda folder: mnist(folder, "MNIST"),
    "mnist_gan": lambda folder: mnist(folder, "MNIST", 128),
    "ptb": ptb,
    "nerf": nerf,
    "cifar": cifar,
    "images": images,
    "bsds": bsds,
    "mnist_small": lambda folder: mnist(folder, count=128),
    "words": words,
    "cora": cora,
}

if __name__ == "__main__":
    kind, _, below = sys.argv[1].partition("@")
    KINDS[kind]((pathlib.Path(sys.argv[2]) / below).resolve())
