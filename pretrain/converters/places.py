"""Where a checkpoint is: a path, a cached module of TF-Hub by its URL, or a cached model of Hugging Face by its id.

A path of a remote file system (gs://, s3://, hdfs://) is copied. Nothing else is downloaded: what is not there is named, with what
to fetch and where to put it.
"""

import hashlib
import os
import re
import tempfile
from pathlib import Path

from nlpdata.errors import UsageError
from nlpdata.files.fetching import fetched
from nlpdata.files.paths import AnyPath, is_remote, path_of
from pretrain.converters.hugging_face_weights import has_hugging_face_weights, weights_files

_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


def find(given: str) -> Path:
    """The file or folder that the user's name for a checkpoint means. UsageError for a URL or an id that is not cached."""
    if re.match(r"https?://", given):
        return _hub_module(given)
    if is_remote(given):
        return fetched(given, neighbours=True)
    path = Path(given).expanduser()
    if not path.exists() and not path.parent.joinpath(f"{path.name}.index").exists() and _ID.fullmatch(given):
        return _hugging_face(given) or path
    if path.name.startswith("models--") and (path / "snapshots").is_dir():
        return _snapshot(path, given)
    return path


def tfhub_cache() -> AnyPath:
    """TF-Hub's folder of modules: TFHUB_CACHE_DIR (--tfhub_cache_dir), else its own default."""
    folder = path_of(os.environ.get("TFHUB_CACHE_DIR") or Path(tempfile.gettempdir(), "tfhub_modules"))
    return folder.expanduser() if isinstance(folder, Path) else folder


def _hub_module(url: str) -> Path:
    """TF-Hub names a module's folder after the SHA-1 of its handle, without its tf-hub-format parameter."""
    handle = re.sub(r"[?&]tf-hub-format=\w+$", "", url)
    places = [tfhub_cache() / hashlib.sha1(form.encode()).hexdigest() for form in (handle, handle.rstrip("/"))]
    for place in places:
        if place.is_dir():
            return fetched(str(place))
    raise UsageError(
        f"{url}: this module is not in {tfhub_cache()}, and nothing is downloaded. Fetch {handle}?tf-hub-format=compressed "
        f"on a machine with a network, then name that .tar.gz here, or unpack it into {places[-1]}. Another folder of "
        "modules: the environment variable TFHUB_CACHE_DIR."
    )


def _hugging_face(name: str) -> Path | None:
    """The cached snapshot of a model; None where Hugging Face's cache has no folder for it."""
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "huggingface"))
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    folder = cache / ("models--" + name.replace("/", "--"))
    return _snapshot(folder, name) if (folder / "snapshots").is_dir() else None


def _snapshot(folder: Path, name: str) -> Path:
    """The folder snapshots/REVISION of a cached model with weights: that of refs/main, else the only one.

    UsageError where main is not there, or where there are none or several.
    """
    found = sorted(place for place in folder.glob("snapshots/*") if has_hugging_face_weights(place))
    listed = ", ".join(place.name for place in found)
    main = folder / "refs" / "main"
    if main.is_file():
        revision = main.read_text(encoding="utf-8", errors="replace").strip()
        chosen = [place for place in found if place.name == revision]
        if not chosen:
            others = f" Snapshots with weights: {listed}; name the folder of one." if found else ""
            raise UsageError(
                f"{name}: refs/main in {folder} is {revision[:50]}, of which no weights are there. Download the model again on a "
                f"machine with a network.{others}"
            )
        return chosen[0]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{name}: {folder} has several snapshots and no refs/main that says which is meant: {listed}. Name the folder of one."
        )
    raise UsageError(f"{name}: no snapshot in {folder} has weights ({weights_files()}).")
