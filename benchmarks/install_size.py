"""What an installation takes on disk, by extra, and what importing costs.

    python benchmarks/install_size.py

Needs an environment with the extras that it measures (`make check` sets one up). Sizes are those of the installed files of
nlpdata's requirements and of theirs, as pip has recorded them, without bytecode and without Python itself. Times are processor time
(user and system) of a new process, least of `--rounds`, with bytecode in place.
"""

import argparse
import importlib.metadata
import os
import resource
import subprocess
import sys

from packaging.requirements import Requirement

EXTRAS = ("", "jax", "train", "beam", "split", "docs")
CALLS = {
    "python": ["-c", ""],
    "import nlpdata": ["-c", "import nlpdata"],
    "import pretrain": ["-c", "import pretrain"],
    "nlpdata --help": ["-m", "nlpdata", "--help"],
    "pretrain run --help": ["-m", "pretrain", "run", "--help"],
    "nlpdata.create_pretraining": ["-c", "import nlpdata; nlpdata.create_pretraining"],
    "pretrain.load, on JAX": ["-c", "import pretrain; pretrain.load"],
    "pretrain.load, on TensorFlow": ["-c", "import pretrain; pretrain.load"],
}


def needed(name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> set[str]:
    """The installed distributions that one needs, itself included."""
    if (name, extras) in seen:
        return set()
    seen.add((name, extras))
    try:
        lines = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        sys.exit(f"{name} is not installed here: pip install '.[{','.join(filter(None, EXTRAS))}]'")
    found = {name}
    for each in map(Requirement, lines):
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras or {""}):
            found |= needed(each.name.lower().replace("_", "-"), frozenset(each.extras), seen)
    return found


def megabytes(names: set[str]) -> float:
    """Millions of bytes of the files of distributions, without bytecode."""
    total = 0
    for name in names:
        for file in importlib.metadata.files(name) or []:
            path = file.locate()
            if path.suffix != ".pyc" and path.is_file():
                total += path.stat().st_size
    return total / 1e6


def seconds(call: list[str], backend: str) -> float:
    """Processor time of a new Python."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "2"}
    subprocess.run([sys.executable, *call], check=True, env=environment, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each call")
    rounds = parser.parse_args().rounds
    print("| installed | packages | MB |\n|---|---|---|")
    for extra in EXTRAS:
        names = needed("nlpdata", frozenset({extra}), set()) - {"nlpdata"}
        print(f"| {f'`.[{extra}]`' if extra else '`.`'} | {len(names)} | {megabytes(names):,.0f} |")
    print("\n| call | seconds of processor time |\n|---|---|")
    for name, call in CALLS.items():
        backend = "jax" if name.endswith("JAX") else "tensorflow"
        print(f"| `{name}` | {min(seconds(call, backend) for _ in range(rounds)):.2f} |")


if __name__ == "__main__":
    main()
