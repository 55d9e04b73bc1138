"""The version of the program."""

import platform
from importlib import metadata


def package_version() -> str:
    """E.g. "0.2.0"; in words where the package is used from a folder, and not installed."""
    try:
        return metadata.version("nlpdata")
    except metadata.PackageNotFoundError:
        return "of a folder that is not installed"


def version_line() -> str:
    """What --version prints, e.g. "nlpdata 0.2.0 (Python 3.11.7)"."""
    return f"nlpdata {package_version()} (Python {platform.python_version()})"
