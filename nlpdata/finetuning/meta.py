"""The meta file of fine-tuning records: `meta.json`, one for all splits of a dataset."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from nlpdata.files.paths import shown_name
from nlpdata.finetuning.datasets import Dataset, Split
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.records.contract import FORMAT_VERSION, Feature
from nlpdata.tokenizers import Tokenizer

MAX_LISTED = 64  # input files of a split listed by name; more are one entry


def meta_content(
    dataset: Dataset,
    splits: Sequence[Split],
    options: FinetuningOptions,
    tokenizer: Tokenizer,
    tokenizer_file: str,
    features: Mapping[str, Sequence[Feature]],
    shards: Mapping[str, Sequence[dict]],
    examples: Mapping[str, str],
    counters: Mapping[str, dict],
) -> dict:
    """The meta file's content. It holds no time, host or absolute path.

    Older tools' keys: task_type, processor_type, num_labels or label_type, train_data_size, eval_data_size,
    test_data_size, max_seq_length, and for SQuAD max_query_length, doc_stride, version_2_with_negative. num_choices: texts
    that compete in a record, each of max_seq_length tokens. `splits` has for each split its records, whether they have
    labels, their features, its counters and its examples file.
    """
    sizes = {split: sum(info["records"] for info in infos) for split, infos in shards.items()}
    family = "albert" if options.feature_names == "albert" else "bert"
    content = {
        "format_version": FORMAT_VERSION,
        "task_type": f"{family}_{dataset.kind}",
        "processor_type": dataset.name,
        "max_seq_length": options.max_seq_length,
        "label_names": list(dataset.labels or []),
        "options": options.affecting_bytes(),
        "seed": options.seed,
        "tokenizer": {"file": tokenizer_file, **tokenizer.meta()},
        "shards": [
            {"split": split, **{name: info[name] for name in ("file", "records", "crc32c")}}
            for split, infos in shards.items()
            for info in infos
        ],
        "inputs": _inputs(splits),
        "splits": {
            split.name: {
                "records": sizes[split.name],
                "labelled": split.labelled,
                "features": [[feature.name, feature.dtype, feature.width] for feature in features[split.name]],
                "counters": counters[split.name],
                **({"examples": examples[split.name]} if split.name in examples else {}),
            }
            for split in splits
        },
    }
    for split, key in (("train", "train_data_size"), ("dev", "eval_data_size"), ("test", "test_data_size")):
        found = next((name for name in sizes if name == split or name.startswith(f"{split}_")), None)
        if found:
            content[key] = sizes[found]
    if dataset.kind == "squad":
        content |= {"max_query_length": options.max_query_length, "doc_stride": options.doc_stride}
        negative = options.version_2_with_negative
        if negative is None:
            negative = any(own.get("impossible", 0) for own in counters.values())
        content["version_2_with_negative"] = negative
    elif dataset.kind == "regression":
        content |= {"num_labels": 1, "label_type": "float"}
    else:
        content |= {"num_labels": dataset.num_labels, "label_type": "int"}
    if dataset.kind == "choice":
        content["num_choices"] = dataset.choices
    return content


def _inputs(splits: Sequence[Split]) -> list[dict]:
    listed: dict[Path, dict] = {}
    for split in splits:
        sizes = {path: path.stat().st_size for path in split.files if path.exists()}
        if len(sizes) <= MAX_LISTED:
            listed |= {path: {"file": shown_name(path.name), "bytes": size} for path, size in sizes.items()}
            continue
        folder = split.files[0].parents[1]
        listed[folder] = {"file": f"{shown_name(folder.name)}/", "bytes": sum(sizes.values()), "files": len(sizes)}
    return list(listed.values())
