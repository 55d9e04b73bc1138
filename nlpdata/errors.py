"""Errors that a user can cause. The command line prints their message and exits with their code; never a traceback."""

RESUMES = "Finished parts are kept: the same command resumes from them"
BEGINS_ANEW = "A run on Beam keeps no finished parts: the same command begins anew"
"""What an error leaves of a command that works in parts, for the end of messages."""


class NlpdataError(Exception):
    """A message for the user: what is wrong, what was received, what was expected, what to do."""

    exit_code = 1


class DataError(NlpdataError):
    """The data, the disk or a verification is at fault (exit code 1)."""


class UsageError(NlpdataError):
    """An option is wrong, a pattern matches nothing, or an output already exists (exit code 2)."""

    exit_code = 2
