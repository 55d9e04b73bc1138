"""Functions of units for the tests of worker processes, which import them; and a program that runs them."""

import os
import re
import signal
import sys
import time
from pathlib import Path

from nlpdata.errors import DataError
from nlpdata.execution.executor import run_units


def nothing():
    """Sets up nothing."""


def note(folder):
    """Leaves this process's id in a folder."""
    Path(folder, str(os.getpid())).touch()


def sleep(unit, report):
    time.sleep(60)


def compute(unit, report):
    re.match("(a+)+b", "a" * 60)  # for hours, without letting another thread run


def end(unit, report):
    """Ends the process: by a signal (negative), or with an exit code."""
    if unit == 0:
        time.sleep(60)
    elif unit < 0:
        os.kill(os.getpid(), -unit)
        time.sleep(60)
    else:
        os._exit(unit)


def fail(unit, report):
    raise DataError(f"text.txt:{unit}: wrong") if unit else ZeroDivisionError("a fault of ours")


class Stubborn(Exception):
    """Cannot be unpickled."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def fail_stubbornly(unit, report):
    raise Stubborn(unit, "two")


def echo(unit, report):
    report(unit)
    return os.getpid(), unit


if __name__ == "__main__":  # the name of a function, the folder for the process ids
    functions = {"sleep": sleep, "compute": compute, "idle": echo}
    for _ in run_units(functions[sys.argv[1]], [1] * 6, workers=2, initializer=note, initargs=(sys.argv[2],)):
        time.sleep(60)  # with results that nobody fetches: the workers wait for units
    signal.pause()


set_up_as = None


def set_up(letter):
    global set_up_as
    set_up_as = letter


def what_is_set_up(unit, report):
    return set_up_as
