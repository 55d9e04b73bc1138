"""nlpdata.json: what a model was trained for, next to the weights where their format has no place for it.

{"kind": "multilabel", "label_names": ["a", "b"], "seq_length": 128}
"""

from collections.abc import Collection
from pathlib import Path

from nlpdata.files.json_files import read_object, write_json
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.heads import BEAM_SIZES, check_facts

NAME = "nlpdata.json"
FACTS = (
    *("kind", "label_names", "seq_length", "version_2_with_negative", "doc_stride", "max_query_length"),
    *("max_qa_length", "blank", *BEAM_SIZES),
)


def write_facts(folder: Path, checkpoint: Checkpoint, but: Collection[str] = ()) -> None:
    """Writes the file where there is something to say.

    Args:
      folder: where to.
      checkpoint: whose facts.
      but: facts that the format itself holds.
    """
    known = {name: value for name, value in checkpoint.extras.items() if value not in (None, [])}
    facts = {name: known[name] for name in FACTS if name in known and name not in but}
    if facts:
        write_json(folder / NAME, facts)


def read_facts(place: Path) -> dict:
    """What the file next to a checkpoint says; {} without one. DataError where it is damaged.

    Args:
      place: the checkpoint: its folder, a file or a prefix in it.
    """
    path = (place if place.is_dir() else place.parent) / NAME
    if not path.is_file():
        return {}
    facts = read_object(path)
    check_facts(facts, str(path))
    return {name: facts[name] for name in FACTS if name in facts}
