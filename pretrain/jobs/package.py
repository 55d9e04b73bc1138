"""The source of this project, and of a user's own modules, for a job."""

import gzip
import hashlib
import importlib.util
import tarfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

from nlpdata.errors import UsageError

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGED = ("nlpdata", "pipelines", "pretrain", "model_configs", "pyproject.toml", "README.md", "LICENSE")


def module_sources(modules: Iterable[str]) -> list[Path]:
    """The files, or for packages the folders, of a user's modules: a job has no others than those of this project."""
    places = set()
    for top in {module.partition(".")[0] for module in modules}:
        spec = importlib.util.find_spec(top)
        if spec is None:
            raise UsageError(f"there is no module {top!r}: a job cannot take it along.")
        places |= {Path(place) for place in spec.submodule_search_locations or [str(spec.origin)]}
    return sorted(path for path in places if not (path.parent == _ROOT and path.name in _PACKAGED))


def digest(paths: Sequence[Path]) -> str:
    """A short digest of files, and of the Python files of folders."""
    whole = hashlib.sha256()
    for path in paths:
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        for file in files:
            whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()[:12]


def build_package(folder: Path) -> Path:
    """The source of this project as `folder`/nlpdata-VERSION.tar.gz, for pip to install; equal sources give equal bytes.

    UsageError where this is not a checkout of the source.
    """
    if not (_ROOT / "pyproject.toml").exists():
        raise UsageError(f"{_ROOT} is not a checkout of the source: there is no pyproject.toml. Run it from one.")
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = f"{project['name']}-{project['version']}"
    target = folder / f"{name}.tar.gz"
    files = [_ROOT / part for part in _PACKAGED if (_ROOT / part).is_file()]
    files += [path for part in _PACKAGED for path in (_ROOT / part).rglob("*") if path.is_file()]
    with (
        open(target, "wb") as raw,
        gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for path in sorted(path for path in files if "__pycache__" not in path.parts):
            archive.add(path, f"{name}/{path.relative_to(_ROOT)}", filter=_without_owner)
    return target


def _without_owner(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.mtime = info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info
