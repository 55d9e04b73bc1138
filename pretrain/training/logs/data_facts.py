"""What a run says of its data, in run.json and eval_data.json.

examples, batch_size, seq_length
masked_lm_prob   with dynamic masking: the share of the tokens that is masked
files       names of what was read, the last parts of paths and patterns
records     what the meta file of the record set says, without what is only for reading it
"""

from collections.abc import Sequence
from typing import Any

from nlpdata.records.contract import read_meta
from pretrain.data.batches import Batches
from pretrain.data.pretraining import masked_share
from pretrain.data.record_set import find_paths, meta_of
from pretrain.data.tokenizers import reads_text
from pretrain.settings.data_section import DataConfig

_MOST_INPUTS = 20
_ONLY_FOR_READING = ("format_version", "shards", "features", "ordinary_ids", "special_tokens")


def describe_data(config: DataConfig, batches: Batches) -> dict[str, Any]:
    """The facts about the batches of a data section, in values of JSON."""
    records = _of_records(config, batches.name)
    is_dynamic = records.get("options", {}).get("masking") == "dynamic"
    return {
        "examples": batches.num_examples,
        "batch_size": batches.batch_size,
        "seq_length": batches.facts.get("seq_length"),
        **({"masked_lm_prob": masked_share(config, records)} if is_dynamic else {}),
        "files": _names(config),
        "records": records,
    }


def _names(config: DataConfig) -> list[str]:
    """The last parts of the paths and patterns of a data section, or the data set that it names."""
    paths = config.input_path if isinstance(config.input_path, list | tuple) else str(config.input_path).split(",")
    names = [str(path).rstrip("/").rpartition("/")[2].strip() for path in paths]
    return [name for name in (*names, config.input_function, str(getattr(config, "tfds_name", ""))) if name][
        :_MOST_INPUTS
    ]


def _of_records(config: DataConfig, name: str) -> dict[str, Any]:
    """What the meta file of a data section's records says of them; {} where there is none."""
    if config.input_function or reads_text(config):
        return {}
    found = meta_of(config, find_paths(config, name)[0])
    meta = _without(read_meta(found), _ONLY_FOR_READING) if found else {}
    inputs = meta.get("inputs")
    if isinstance(inputs, list) and len(inputs) > _MOST_INPUTS:
        meta |= {"inputs": inputs[:_MOST_INPUTS], "more_inputs": len(inputs) - _MOST_INPUTS}
    return meta


def _without(value: Any, names: Sequence[str]) -> Any:
    """A value of JSON without the keys of these names, at any depth."""
    if isinstance(value, dict):
        return {name: _without(each, names) for name, each in value.items() if name not in names}
    return value
