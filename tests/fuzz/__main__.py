"""python -m tests.fuzz --minutes 60: the table of targets; exit code 1 where anything but a message came."""

import argparse
import logging
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tests.fuzz.cases import TARGETS
from tests.fuzz.runner import Tally, run, run_case, table
from tests.fuzz.targets import load_targets


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="about how long, all targets together")
    parser.add_argument("--cases", type=int, default=1 << 40, help="cases of each target at most")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other cases")
    parser.add_argument("--targets", default="", help="beginnings of names, comma-separated; default: all")
    parser.add_argument("--case", help="one case again, TARGET:SEED:NUMBER, with its traceback")
    parser.add_argument("--list", action="store_true", help="the names of the targets")
    parser.add_argument("--backend", choices=("jax", "tensorflow"), default="jax", help="of Keras; default: jax")
    given = parser.parse_args()
    sys.stdout.reconfigure(errors="backslashreplace")  # faults may quote what no encoding has
    os.environ["KERAS_BACKEND"] = given.backend  # no target has imported Keras yet
    load_targets()
    if given.list:
        print("\n".join(TARGETS))
        return 0
    if given.case:
        return _again(given.case)
    wanted = tuple(given.targets.split(","))
    names = [name for name in TARGETS if name.startswith(wanted)]
    tallies: dict[str, Tally] = {}
    for name, tally in run(names, given.seed, given.cases, given.minutes * 60 / max(1, len(names))):
        if name not in tallies:
            print(name, file=sys.stderr, flush=True)
        tallies[name] = tally
    for tally in tallies.values():
        for case, what in tally.faults.items():
            print(f"== {case}\n{what}\n")
    print(table(tallies))
    return 1 if any(tally.faults for tally in tallies.values()) else 0


def _again(name: str) -> int:
    target, seed, number = name.rsplit(":", 2)
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        (given := Path(place, "given")).mkdir()
        if TARGETS[target].give:
            TARGETS[target].give(given)
        outcome, what = run_case(TARGETS[target], int(seed), int(number), given)
    print(f"{outcome}: {what}")
    return outcome == "fault"


if __name__ == "__main__":
    sys.exit(main())
