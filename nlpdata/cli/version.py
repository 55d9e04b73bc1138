"""The version of the program."""

import platform
from importlib import metadata


def version_line() -> str:
    """What --version prints, e.g. "nlpdata 0.2.0 (Python 3.11.7)"."""
    try:
        version = metadata.version("nlpdata")
    except metadata.PackageNotFoundError:
        version = "of a folder that is not installed"
    return f"nlpdata {version} (Python {platform.python_version()})"
