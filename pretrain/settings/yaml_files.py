"""Configuration files: YAML in and out, and the resolved configuration that a model_dir keeps."""

import logging
import os
from pathlib import Path
from typing import Any

import yaml

from nlpdata.errors import DataError, UsageError, closest
from nlpdata.files.fetching import fetched
from nlpdata.files.paths import is_remote, read_file
from nlpdata.files.writing import write_whole
from nlpdata.files.yaml_faults import MOST_YAML_BYTES, YAML_FAULTS, yaml_fault
from nlpdata.registry import user_modules
from nlpdata.reports.run_facts import CONFIG_FILE
from pretrain.settings.schema import ExperimentConfig, own_modules
from pretrain.settings.tree import Place, differences, merged, to_tree

_log = logging.getLogger(__name__)

_SHIPPED = Path(__file__).parents[1] / "configs"
_OTHER_NAMES = {"squad_v1": "squad_v1.1"}  # of the Model Garden


class Section(dict):
    """A mapping of a file; `lines` has the line of each key."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.lines: dict[str, int] = {}


class _TextLoader(yaml.SafeLoader):
    """Leaves scalars as text, but for an unquoted null; the fields' types decide (values.py)."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (PyYAML's name and form)
        first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":null", ":merge"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def section(self, node: yaml.MappingNode) -> Section:
        own = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a name must be text", problem_mark=key_node.start_mark)
            if key_node.value in own:
                raise yaml.MarkedYAMLError(problem=f"{key_node.value!r} twice", problem_mark=key_node.start_mark)
            own.add(key_node.value)
        self.flatten_mapping(node)  # puts merged keys (<<) first, so that own ones win
        result = Section()
        for key_node, value_node in node.value:
            result[key_node.value] = self.construct_object(value_node, deep=True)
            result.lines[key_node.value] = key_node.start_mark.line + 1
        return result


_TextLoader.add_constructor("tag:yaml.org,2002:map", _TextLoader.section)


def find_config(path: str | os.PathLike) -> Path:
    """The configuration file at `path`, or the one of that name that comes with the package.

    `configs/experiments/glue_mrpc.yaml`, `experiments/glue_mrpc` and `glue_mrpc` all name the latter, and so does a longer path
    to it in the folders of the Model Garden, which is reported; a file of the user's comes first, but not a folder, such as the
    model_dir of a run that is named like its task. UsageError, with the closest names, where there is neither.
    """
    if str(path) == "":
        raise UsageError("configuration file '' has no name (is a shell variable empty?).")
    if is_remote(path):
        return fetched(path)
    is_folder = Path(path).is_dir()
    if Path(path).exists() and not is_folder:
        return Path(path)
    shipped = {file.relative_to(_SHIPPED).with_suffix(""): file for file in sorted(_SHIPPED.rglob("*.yaml"))}
    asked = Path(path).with_suffix("") if Path(path).suffix == ".yaml" else Path(path)
    asked = Path(*asked.parts[1:]) if asked.parts[:1] == ("configs",) else asked
    asked = asked.with_name(_OTHER_NAMES.get(asked.name, asked.name)) if asked.name else asked
    found = [file for name, file in shipped.items() if asked in (name, Path(name.name))]
    if found:
        return found[0]
    if (elsewhere := shipped.get(Path(*asked.parts[-2:]))) is not None:
        _log.info(f"{path} is not there; the {elsewhere.name} that comes with the package is used")
        return elsewhere
    if is_folder:
        raise UsageError(f"configuration file {path} cannot be read: it is a folder.")
    hint = closest(asked.name, [name.name for name in shipped])
    raise UsageError(f"there is no configuration file {path} (from {os.getcwd()}), nor one of that name here.{hint}")


def read_yaml(path: str | os.PathLike) -> Section:
    """The tree of a YAML (or JSON) file, scalars as text.

    Raises:
      UsageError: it cannot be read, is not YAML, or has no names at its top; with file and line.
    """
    try:
        text = read_file(find_config(path), MOST_YAML_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"configuration file {path} is not UTF-8 text (byte {error.start}).") from None
    except OSError as error:
        raise UsageError(f"configuration file {path} cannot be read: {error.strerror or error}") from None
    try:
        tree = yaml.load(text, Loader=_TextLoader)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UsageError(f"{path}{line}: is not valid YAML: {error.problem}.") from None
    except YAML_FAULTS as error:
        raise UsageError(f"{path}: is not valid YAML: {yaml_fault(error)}.") from None
    if tree is None:
        return Section()
    if not isinstance(tree, Section):
        raise UsageError(f"{path}: expected sections such as `trainer:`. Received: {_beginning(tree)}.")
    return tree


def _beginning(tree: Any) -> str:
    """The beginning of a scalar; of a list its kind: aliases may make its text endless."""
    return "a list" if isinstance(tree, list | tuple | set) else repr(str(tree)[:80])


def dump_yaml(config: ExperimentConfig) -> str:
    """The configuration as YAML: the same one gives the same text."""
    return yaml.safe_dump(to_tree(config), sort_keys=False, allow_unicode=True, width=120)


def compare_saved(config: ExperimentConfig, model_dir: str | os.PathLike) -> list[str]:
    """'path: saved -> now' of each field in which the configuration differs from the one that the model_dir keeps."""
    path = Path(model_dir) / CONFIG_FILE
    if not path.exists():
        return []
    now = to_tree(config)
    try:
        with user_modules(own_modules(config)):
            saved = merged(ExperimentConfig, now, read_yaml(path), Place(str(path), stored=True, quiet=True))
    except UsageError as error:
        return [f"the saved configuration does not fit: {error}"]
    return differences(saved, now)


def save(config: ExperimentConfig, model_dir: str | os.PathLike) -> Path:
    """Writes the configuration to model_dir/params.yaml, all or nothing.

    Raises:
      DataError: the disk refuses.
    """
    path = Path(model_dir) / CONFIG_FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, dump_yaml(config).encode())
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from None
    return path
