"""Errors that a user can cause. The command line prints their message and exits with their code; never a traceback."""


class NlpdataError(Exception):
    """A message for the user: what is wrong, what was received, what was expected, what to do."""

    exit_code = 1


class DataError(NlpdataError):
    """The data, the disk or a verification is at fault (exit code 1)."""


class UsageError(NlpdataError):
    """An option is wrong, a pattern matches nothing, or an output already exists (exit code 2)."""

    exit_code = 2
