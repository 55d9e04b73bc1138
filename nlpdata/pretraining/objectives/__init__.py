"""Objectives: what a pretraining example asks besides its masked words. A new one is a module here and a line below.

An objective cuts documents into chunks, makes segments and labels of chunks, and names what the labels mean (see
nlpdata.pretraining.objectives.base). A user's own objective is named as module:attribute.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any

from nlpdata.errors import NlpdataError, UsageError, opt
from nlpdata.registry import Registry, users_code, users_fault

if TYPE_CHECKING:
    from nlpdata.pretraining.objectives.base import Objective

OBJECTIVES = Registry(
    "objective",
    {
        "sop": "nlpdata.pretraining.objectives.sop:SentenceOrder",
        "nsp": "nlpdata.pretraining.objectives.nsp:NextSentence",
        "none": "nlpdata.pretraining.objectives.none:MaskedWords",
    },
)


@cache
def find_objective(name: str) -> "Objective":
    """The objective of a registered name, or at a user's module:attribute. UsageError where it is not one.

    `name` comes from the user, who may name any module. One that a file names is not looked up here.
    """
    from nlpdata.pretraining.objectives.base import Objective

    with users_code(f"{opt('objective', name)} cannot be imported"):
        found = OBJECTIVES.get(name)
        if not (isinstance(found, type) and issubclass(found, Objective)):
            raise UsageError(
                f"{opt('objective', name)} is not an objective: expected a class that extends "
                "nlpdata.pretraining.objectives.base.Objective."
            )
        objective = found()
    if fault := objective.fault():
        raise UsageError(f"{opt('objective', name)}: {fault}")
    return objective


@contextmanager
def objectives_code(name: str) -> Iterator[None]:
    """While the context lasts, what a user's own objective raises at work becomes a UsageError with its file and line."""
    try:
        yield
    except (NlpdataError, OSError, MemoryError):
        raise
    except Exception as error:
        if OBJECTIVES.is_built_in(name):
            raise
        file = getattr(sys.modules.get(type(find_objective(name)).__module__), "__file__", None) or ""
        raise users_fault(f"{opt('objective', name)} failed", error, file) from error


def check_own_options(options: Any) -> None:
    """UsageError where an option that belongs to other objectives than the chosen one is set.

    Args:
      options: the PretrainingOptions.
    """
    if not isinstance(options.objective, str):
        raise UsageError(f"{opt('objective')} must be a name. Received: {options.objective!r}.")
    chosen = find_objective(options.objective)
    owners: dict[str, list[str]] = {}
    for name in OBJECTIVES:
        for own in find_objective(name).own_options:
            owners.setdefault(own, []).append(name)
    for field in fields(options):
        if field.name not in owners or field.name in chosen.own_options:
            continue
        if getattr(options, field.name) != field.default:
            belongs = " or ".join(str(opt("objective", name)) for name in owners[field.name])
            raise UsageError(
                f"{opt(field.name)} belongs to {belongs}. Received: {opt('objective', options.objective)}."
            )
