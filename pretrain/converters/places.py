"""Where a checkpoint lies: a path, a cached module of TF-Hub by its URL, or a cached model of Hugging Face by its id.

Nothing is downloaded: what is not there is named, with what to fetch and where to put it.
"""

import hashlib
import os
import re
import tempfile
from pathlib import Path

from nlpdata.errors import UsageError

_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_REVISION = re.compile(r"[0-9a-f]{40}")


def find(given: str) -> Path:
    """The file or folder that a user's word for a checkpoint means. UsageError for a URL or an id that is not cached."""
    path = Path(given).expanduser()
    if re.match(r"https?://", given):
        return _hub_module(given)
    if not path.exists() and not path.parent.joinpath(f"{path.name}.index").exists() and _ID.fullmatch(given):
        return _hugging_face(given) or path
    return path


def tfhub_cache() -> Path:
    """TF-Hub's folder of modules: TFHUB_CACHE_DIR (--tfhub_cache_dir), else its own default."""
    return Path(os.environ.get("TFHUB_CACHE_DIR") or Path(tempfile.gettempdir(), "tfhub_modules")).expanduser()


def _hub_module(url: str) -> Path:
    """TF-Hub names a module's folder after the SHA-1 of its handle, without its tf-hub-format parameter."""
    handle = re.sub(r"[?&]tf-hub-format=\w+$", "", url)
    places = [tfhub_cache() / hashlib.sha1(form.encode()).hexdigest() for form in (handle, handle.rstrip("/"))]
    for place in places:
        if place.is_dir():
            return place
    raise UsageError(
        f"{url}: this module is not in {tfhub_cache()}, and nothing is downloaded. Fetch {handle}?tf-hub-format=compressed "
        f"on a machine with a network, then name that .tar.gz here, or unpack it into {places[-1]}. Another folder of "
        "modules: --tfhub_cache_dir, or TFHUB_CACHE_DIR."
    )


def _hugging_face(name: str) -> Path | None:
    """The cached snapshot of a model: models--OWNER--NAME/snapshots/REVISION in Hugging Face's cache; None without one."""
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "huggingface"))
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    folder = cache / ("models--" + name.replace("/", "--"))
    main = folder / "refs" / "main"
    revision = main.read_text(encoding="utf-8", errors="replace").strip() if main.is_file() else ""
    if _REVISION.fullmatch(revision) and (folder / "snapshots" / revision).is_dir():
        return folder / "snapshots" / revision
    found = sorted(folder.glob("snapshots/*/config.json"))
    return found[-1].parent if found else None
