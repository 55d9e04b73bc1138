"""Fine-tuning on the datasets of GLUE: records, runs and the table of scores.

For every dataset: records of its folder (nlpdata.create_finetuning), the settings of configs/experiments/glue_NAME.yaml, one
run a seed with train_and_eval; a model of MNLI is scored on both of its dev sets. A sweep that was interrupted resumes.
"""

import glob
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from nlpdata.errors import UsageError, closest, opt
from nlpdata.files import PathName
from nlpdata.files.fetching import local_only
from nlpdata.files.json_files import read_object, write_file, write_json
from nlpdata.files.json_kinds import as_written
from nlpdata.finetuning.datasets import SPELLINGS, plain_name
from nlpdata.registry import user_modules
from nlpdata.reports.run_facts import GLUE_FILE
from nlpdata.reports.run_words import sweep_score
from nlpdata.tokenizers import Tokenizer
from pretrain.settings.fields import Choice
from pretrain.settings.overrides import parse_overrides
from pretrain.settings.schema import ExperimentConfig, registered
from pretrain.settings.tree import to_tree, with_layers
from pretrain.settings.yaml_files import read_yaml
from pretrain.sweeps.seeds import run_each, seed_runs, summarize

_log = logging.getLogger(__name__)


class _Dataset(NamedTuple):
    """The metrics of the GLUE paper (Wang et al., 2019, table 1), the file of settings, and the split to score on."""

    metrics: tuple[str, ...]
    settings: str
    dev: str = "dev"


_ACCURACY = ("accuracy",)
DATASETS = {
    "cola": _Dataset(("matthews_corrcoef",), "glue_cola"),
    "sst2": _Dataset(_ACCURACY, "glue_sst2"),
    "mrpc": _Dataset(("f1", "accuracy"), "glue_mrpc"),
    "stsb": _Dataset(("pearson", "spearman"), "glue_stsb"),
    "qqp": _Dataset(("f1", "accuracy"), "glue_qqp"),
    "mnli_matched": _Dataset(_ACCURACY, "glue_mnli_matched", "dev_matched"),
    "mnli_mismatched": _Dataset(_ACCURACY, "glue_mnli_mismatched", "dev_mismatched"),
    "qnli": _Dataset(_ACCURACY, "glue_qnli"),
    "rte": _Dataset(_ACCURACY, "glue_rte"),
    "wnli": _Dataset(_ACCURACY, "glue_wnli"),
}
# Where both are asked for, one model is scored on the dev sets of both.
_SAME_MODEL = {"mnli_mismatched": "mnli_matched"}
_ALLOW = "allow_other_tokenizer"


@dataclass(frozen=True, kw_only=True)
class GlueOptions:
    """What a sweep fine-tunes, on what, and where.

    Attributes:
      init_checkpoint: weights to start from, as for pretrain.load.
      input: folder that holds those of the datasets (CoLA, MRPC, ...).
      output: folder of records/DATASET, the runs DATASET/seed-N, glue.json and glue.tsv.
      tasks: names of DATASETS, in any usual spelling; mnli for both of its dev sets; None: all.
      seeds: runs for each dataset, with seeds 0 to seeds - 1.
      tokenizer: tokenizer file; None: the one next to the weights.
      model_config: architecture, a name or a JSON file; None: the checkpoint's.
      experiment: registered experiment under the settings.
      max_seq_length: tokens of a record.
      on_bad_row: fail or skip, for a row that cannot be used.
      accept_loss: make records even where most of the text is cut off or unknown to the tokenizer.
      config_files: YAML files over the settings of each dataset, lowest first.
      params_overrides: a.b=1,c.d=2 over everything, lowest first.
      import_modules: modules of the user's own parts.
      allow_other_tokenizer: accept a tokenizer that is not that of the weights.
    """

    init_checkpoint: PathName
    input: PathName
    output: PathName
    tasks: Sequence[str] | None = None
    seeds: int = 1
    tokenizer: PathName | None = None
    model_config: str | None = None
    experiment: str = "bert/sentence_prediction"
    max_seq_length: int = 128
    on_bad_row: Literal["fail", "skip"] = "fail"
    accept_loss: bool = False
    config_files: Sequence[str] = ()
    params_overrides: Sequence[str] = ()
    import_modules: Sequence[str] = ()
    allow_other_tokenizer: bool = False

    def names(self) -> list[str]:
        """The datasets of the sweep, each once. UsageError for one that is unknown."""
        known = {plain_name(name): [name] for name in DATASETS} | {"mnli": ["mnli_matched", "mnli_mismatched"]}
        known["all"] = list(DATASETS)
        chosen: dict[str, None] = {}
        for name in ["all"] if self.tasks is None else self.tasks:
            plain = plain_name(name)
            found = known.get(SPELLINGS.get(plain, plain))
            if found is None:
                raise UsageError(
                    f"{opt('tasks')}: no task {name!r}.{closest(plain, known)} Known: {', '.join(DATASETS)}."
                )
            chosen |= dict.fromkeys(found)
        if not chosen:
            raise UsageError(
                f"{opt('tasks')} names no task. Known: {', '.join(DATASETS)}; mnli for both of its dev sets."
            )
        return list(chosen)

    def layers(self) -> list[tuple[str, dict]]:
        """What is over the settings of every dataset, lowest first. UsageError for a file that cannot be read."""
        return [
            *((path, read_yaml(path)) for path in self.config_files),
            *(("--params_override", parse_overrides(text)) for text in self.params_overrides),
            *([(f"--{_ALLOW}", {"task": {_ALLOW: True}})] if self.allow_other_tokenizer else []),
        ]


def run_glue(options: GlueOptions) -> list[dict]:
    """Runs the sweep, and writes its table as glue.json and glue.tsv.

    Returns a row for each metric: {"task", "metric", "median", "min", "max", "std"}, over the seeds, and last "average": the
    mean over the tasks (MNLI counts once) of the mean of their medians.

    Raises UsageError, DataError.
    """
    local_only(options.output, opt("output"), "Its runs are written here: name a local folder, and copy it.")
    folder = Path(options.output)
    with user_modules(options.import_modules):
        names = options.names()
        results = run_each(_runs(options, names), folder, folder / GLUE_FILE)
    rows = _rows({name: [value for run, value in results.items() if run.startswith(f"{name}/")] for name in names})
    write_json(folder / GLUE_FILE, {"runs": read_object(folder / GLUE_FILE)["runs"], "table": rows})
    columns = list(rows[0])
    lines = ["\t".join(columns), *("\t".join(str(row[column]) for column in columns) for row in rows)]
    write_file(folder / "glue.tsv", ("\n".join(lines) + "\n").encode())
    return rows


def _runs(options: GlueOptions, names: Sequence[str]) -> dict[str, tuple[ExperimentConfig, str]]:
    """Name -> configuration and mode of every run; the records are made, and the settings checked."""
    from pretrain.converters import read_checkpoint
    from pretrain.converters.checkpoint import report_ignored
    from pretrain.converters.same_tokenizer import own_tokenizer
    from pretrain.encoders.model_config import read_model_config
    from pretrain.training.experiment import check_before_sweep

    source, folder, above = str(options.init_checkpoint), Path(options.output), options.layers()
    given = read_model_config(options.model_config) if options.model_config else None
    checkpoint = read_checkpoint(source, given)
    report_ignored(checkpoint, given)
    encoder = checkpoint.known_encoder
    longest = encoder.options.max_position_embeddings
    if options.max_seq_length > longest:
        raise UsageError(
            f"{opt('max_seq_length')} must be {longest} or less, the most tokens that {source} takes. "
            f"Received: {options.max_seq_length}."
        )
    confirmed = any(_ALLOW in (tree.get("task") or {}) for _, tree in above)  # the runs check the tokenizer again
    tokenizer = own_tokenizer(source, options.tokenizer, confirmed)
    splits = {name: _splits_of(name, names) for name in names}
    for name in names:  # before the first records, which may take long
        _check_input(options, name, splits[name])
        with_layers(registered(options.experiment), [_settings(name), *above])
    runs = {}
    for name in names:
        dev = DATASETS[name].dev
        trained = "" if "train" in splits[name] else _SAME_MODEL[name]  # the dataset whose model is scored
        records = make_records(options, name, splits[name], tokenizer)
        layers = [_settings(name), ("", _task_layer(options, records, dev, encoder))]
        config = with_layers(registered(options.experiment), [*layers, *above])
        if not trained:
            check_before_sweep(config, "train_and_eval")
        for seed, each in seed_runs(config, options.seeds).items():
            if trained:  # in a folder that never gets checkpoints
                runs[f"{name}/{trained}-{seed}"] = _scored(each, folder / trained / seed), "eval"
            else:
                runs[f"{name}/{seed}"] = each, "train_and_eval"
    return runs


def _settings(name: str) -> tuple[str, dict]:
    """The settings of a dataset, with the name of their file."""
    settings = DATASETS[name].settings
    return settings, read_yaml(settings)


def _splits_of(name: str, names: Sequence[str]) -> list[str]:
    """The splits that records are made of: of a dataset on which the model of another one is scored the dev split alone."""
    dev = DATASETS[name].dev
    return [dev] if _SAME_MODEL.get(name) in names else ["train", dev]


def _check_input(options: GlueOptions, name: str, splits: Sequence[str]) -> None:
    """UsageError, DataError where a dataset is not in the input, unless its records are there already."""
    from nlpdata.finetuning.datasets import choose_splits, open_dataset
    from nlpdata.finetuning.options import FinetuningOptions

    if not (_records(options, name) / "meta.json").exists():
        wanted = ",".join(splits)
        choose_splits(open_dataset([str(options.input)], FinetuningOptions(task=name, splits=wanted)), wanted)


def _records(options: GlueOptions, name: str) -> Path:
    return Path(options.output) / "records" / name


def _scored(config: ExperimentConfig, run: Path) -> ExperimentConfig:
    """The experiment that evaluates the model of another run."""
    trainer = replace(config.trainer, best_checkpoint_export_subdir="")
    return replace(config, task=replace(config.task, init_checkpoint=str(run)), trainer=trainer)


def make_records(options: GlueOptions, name: str, splits: Sequence[str], tokenizer: Tokenizer) -> Path:
    """The folder of a dataset's records, made where they are not there yet. UsageError where it has others."""
    from nlpdata import create_finetuning
    from nlpdata.output import is_unfinished
    from nlpdata.records.contract import read_meta

    folder = _records(options, name)
    meta_path = folder / "meta.json"
    if not meta_path.exists() or any(is_unfinished(str(folder / f"{split}.tfrecord")) for split in splits):
        _log.info(f"{name}: making records: {folder}")
        create_finetuning(
            str(options.input),
            str(folder),
            tokenizer.spec,
            task=name,
            splits=",".join(splits),
            max_seq_length=options.max_seq_length,
            on_bad_row=options.on_bad_row,
            accept_loss=options.accept_loss,
        )
        return folder
    meta = read_meta(meta_path)
    wanted = {"tokenizer": tokenizer.sha256, "max_seq_length": options.max_seq_length}
    found = {"tokenizer": meta.get("tokenizer", {}).get("sha256"), "max_seq_length": meta.get("max_seq_length")}
    other = [key for key in wanted if wanted[key] != found[key]]
    if other:
        raise UsageError(
            f"{folder} has records of another {other[0]} ({as_written(found[other[0]])}, expected "
            f"{as_written(wanted[other[0]])}). Use another {opt('output')}, or remove that folder."
        )
    return folder


def _task_layer(options: GlueOptions, records: Path, dev: str, encoder: Choice) -> dict:
    def data(split: str) -> dict:
        return {"input_path": f"{glob.escape(str(records / split))}.tfrecord*", "seq_length": options.max_seq_length}

    return {
        "task": {
            "init_checkpoint": str(options.init_checkpoint),
            "model": {"encoder": to_tree(encoder)},
            "train_data": data("train"),
            "validation_data": data(dev),
        }
    }


def _rows(results: Mapping[str, list[dict]]) -> list[dict]:
    """The table: dataset -> metrics of its runs, summed up. What `run_glue` returns."""
    rows: list[dict] = []
    means: dict[str, list[float]] = {}
    for task, scores in results.items():
        summary = summarize(scores)
        metrics = DATASETS[task].metrics
        rows += [{"task": task, "metric": metric, **summary[metric]} for metric in metrics]
        mean = sum(summary[metric]["median"] for metric in metrics) / len(metrics)
        means.setdefault(_SAME_MODEL.get(task, task), []).append(mean)
    average = sum(sum(each) / len(each) for each in means.values()) / len(means)
    return [*rows, {"task": "average", "metric": "", "median": average, "min": "", "max": "", "std": ""}]


def table_lines(rows: Sequence[dict]) -> list[str]:
    """The rows of `run_glue` as a table for people, in percent."""
    lines = [f"{'task':<16}{'metric':<20}{'median':>8}{'min':>8}{'max':>8}{'std':>8}   (percent)"]
    for row in rows:
        numbers = [row[name] for name in ("median", "min", "max", "std")]
        cells = "".join(f"{sweep_score(value, in_percent=True) or value:>8}" for value in numbers)
        lines.append(f"{row['task']:<16}{row['metric']:<20}{cells}".rstrip())
    return lines
