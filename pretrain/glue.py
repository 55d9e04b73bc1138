"""python -m pretrain.glue --init_checkpoint base --input glue --output sweep: fine-tunes on GLUE tasks, and prints the table.

For every task: records of its folder (nlpdata.create_finetuning), the settings of configs/experiments/glue_TASK.yaml, one
run a seed with train_and_eval; a model of MNLI is scored on both of its dev sets. In the output folder are records/TASK,
TASK/seed-N (the runs), glue.json and glue.tsv.
Called again it resumes where it was.
"""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from nlpdata.errors import UsageError
from nlpdata.files.json_files import read_object, write_file, write_json
from nlpdata.options import ACCEPT_LOSS_HELP
from pretrain.registry import EXPERIMENTS, user_modules
from pretrain.settings.backend import choose_backend
from pretrain.settings.command_line import AllowOtherTokenizer, ImportModules, run_app
from pretrain.settings.overrides import parse_overrides
from pretrain.settings.schema import ExperimentConfig
from pretrain.settings.tree import to_tree, with_layers
from pretrain.settings.values import closest
from pretrain.settings.yaml_files import read_yaml
from pretrain.sweeps.seeds import run_each, seed_runs, summarize

_log = logging.getLogger("pretrain.glue")

# The metrics of the GLUE paper (Wang et al., 2019, table 1) for each task, and its files of settings and of the dev split.
_ACCURACY = ("accuracy",)
TASKS = {
    "cola": (("matthews_corrcoef",), "glue_cola", "dev"),
    "sst2": (_ACCURACY, "glue_sst2", "dev"),
    "mrpc": (("f1", "accuracy"), "glue_mrpc", "dev"),
    "stsb": (("pearson", "spearman"), "glue_stsb", "dev"),
    "qqp": (("f1", "accuracy"), "glue_qqp", "dev"),
    "mnli_matched": (_ACCURACY, "glue_mnli_matched", "dev_matched"),
    "mnli_mismatched": (_ACCURACY, "glue_mnli_mismatched", "dev_mismatched"),
    "qnli": (_ACCURACY, "glue_qnli", "dev"),
    "rte": (_ACCURACY, "glue_rte", "dev"),
    "wnli": (_ACCURACY, "glue_wnli", "dev"),
}
_ALLOW = "allow_other_tokenizer"
# Where both are asked for, one model is scored on the dev sets of both.
_SAME_MODEL = {"mnli_mismatched": "mnli_matched"}

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def glue_command(
    init_checkpoint: Annotated[
        str, typer.Option("--init_checkpoint", "--init-checkpoint", help="Weights to start from.")
    ],
    input: Annotated[str, typer.Option(help="The folder that holds those of the tasks (CoLA, MRPC, ...).")],
    output: Annotated[str, typer.Option("--output", "--model_dir", help="Folder of records, runs and the table.")],
    tasks: Annotated[str, typer.Option(help="Comma-separated, or `all`.")] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="Runs a task, with seeds 0 to N-1.")] = 1,
    tokenizer: Annotated[str | None, typer.Option(help="Tokenizer file.  [default: that beside the weights]")] = None,
    model_config: Annotated[
        str | None, typer.Option("--model_config", "--model-config", help="Architecture.  [default: the checkpoint's]")
    ] = None,
    experiment: Annotated[str, typer.Option(help="The experiment under the settings.")] = "bert/sentence_prediction",
    max_seq_length: Annotated[int, typer.Option("--max_seq_length", "--max-seq-length", help="Of the records.")] = 128,
    on_bad_row: Annotated[
        Literal["fail", "skip"],
        typer.Option("--on_bad_row", "--on-bad-row", help="A row that cannot be used: stop, or leave it out."),
    ] = "fail",
    accept_loss: Annotated[bool, typer.Option("--accept_loss", "--accept-loss", help=ACCEPT_LOSS_HELP)] = False,
    config_file: Annotated[
        list[str] | None, typer.Option("--config_file", "--config-file", help="YAML over each task's settings.")
    ] = None,
    params_override: Annotated[
        list[str] | None, typer.Option("--params_override", "--params-override", help="a.b=1,c.d=2 over everything.")
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(help="auto, tensorflow or jax.  [default: KERAS_BACKEND, else auto]", show_default=False),
    ] = None,
    import_module: ImportModules = None,
    allow_other_tokenizer: AllowOtherTokenizer = False,
) -> None:
    """Fine-tune on GLUE tasks, and print the table of their scores."""
    backend, why = choose_backend(backend, os.environ, next(Path(output).glob("*/seed-*"), None))
    os.environ["KERAS_BACKEND"] = backend
    _log.info(f"backend: {backend} ({why})")
    rows = glue(
        init_checkpoint,
        input,
        output,
        tasks=None if tasks == "all" else tasks.split(","),
        seeds=seeds,
        tokenizer=tokenizer,
        model_config=model_config,
        experiment=experiment,
        max_seq_length=max_seq_length,
        on_bad_row=on_bad_row,
        accept_loss=accept_loss,
        config_files=config_file or (),
        params_overrides=params_override or (),
        import_modules=import_module or (),
        allow_other_tokenizer=allow_other_tokenizer,
    )
    print("\n".join(table_lines(rows)))


def glue(
    init_checkpoint: str,
    input: str,
    output: str,
    *,
    tasks: Sequence[str] | None = None,
    seeds: int = 1,
    tokenizer: str | None = None,
    model_config: str | None = None,
    experiment: str = "bert/sentence_prediction",
    max_seq_length: int = 128,
    on_bad_row: str = "fail",
    accept_loss: bool = False,
    config_files: Sequence[str] = (),
    params_overrides: Sequence[str] = (),
    import_modules: Sequence[str] = (),
    allow_other_tokenizer: bool = False,
) -> list[dict]:
    """Runs the sweep; see the top of this file. `tasks`: names of TASKS; None: all.

    Returns a row a metric: {"task", "metric", "median", "min", "max", "std"}, over the seeds, and last "average": the mean
    over the tasks (MNLI is one) of the mean of their medians. `import_modules`: of the user's own parts.
    `allow_other_tokenizer`: the given one need not be that of the weights. Raises UsageError, DataError.
    """
    with user_modules(import_modules):
        return _sweep(
            init_checkpoint,
            input,
            Path(output),
            tasks,
            seeds,
            tokenizer,
            model_config,
            experiment,
            {"max_seq_length": max_seq_length, "on_bad_row": on_bad_row, "accept_loss": accept_loss},
            [
                *((path, read_yaml(path)) for path in config_files),
                *(("--params_override", parse_overrides(text)) for text in params_overrides),
                *([("--allow_other_tokenizer", {"task": {_ALLOW: True}})] if allow_other_tokenizer else []),
            ],
        )


def _sweep(init_checkpoint, input, folder, tasks, seeds, tokenizer, model_config, experiment, made, top) -> list[dict]:
    """`glue`, its files read; made: options of the records."""
    from nlpdata.finetuning.datasets import plain_name
    from pretrain.converters import read_checkpoint
    from pretrain.encoders.model_config import read_model_config
    from pretrain.training.experiment import check_before_sweep

    known = {plain_name(name): name for name in TASKS}
    chosen = []
    for name in TASKS if tasks is None else tasks:
        if plain_name(name) not in known:
            raise UsageError(f"--tasks: no task {name!r}.{closest(plain_name(name), known)} Known: {', '.join(TASKS)}.")
        chosen.append(known[plain_name(name)])
    given = read_model_config(model_config) if model_config else None
    encoder = read_checkpoint(init_checkpoint, given).encoder
    confirmed = any(_ALLOW in (tree.get("task") or {}) for _, tree in top)
    vocabulary = _tokenizer(tokenizer, init_checkpoint, confirmed)
    runs: dict[str, tuple[ExperimentConfig, str]] = {}
    for name in chosen:
        _, settings, dev = TASKS[name]
        trained = _SAME_MODEL.get(name) if _SAME_MODEL.get(name) in chosen else None
        splits = dev if trained else f"train,{dev}"
        records = _records(name, splits, input, folder / "records" / name, vocabulary, made)
        layers = [
            (settings, read_yaml(settings)),
            ("", _task_layer(records, dev, made["max_seq_length"], encoder, init_checkpoint)),
        ]
        config = with_layers(EXPERIMENTS.get(experiment)(), [*layers, *top])
        if not trained:
            check_before_sweep(config, "train_and_eval")
        for seed, each in seed_runs(config, seeds).items():
            if trained:  # in a folder that never gets checkpoints of its own
                runs[f"{name}/{trained}-{seed}"] = _scored(each, folder / trained / seed), "eval"
            else:
                runs[f"{name}/{seed}"] = each, "train_and_eval"
    results = run_each(runs, folder, folder / "glue.json")
    rows = _rows({name: [value for run, value in results.items() if run.startswith(f"{name}/")] for name in chosen})
    write_json(folder / "glue.json", {"runs": read_object(folder / "glue.json")["runs"], "table": rows})
    columns = list(rows[0])
    lines = ["\t".join(columns), *("\t".join(str(row[column]) for column in columns) for row in rows)]
    write_file(folder / "glue.tsv", ("\n".join(lines) + "\n").encode())
    return rows


def _tokenizer(given: str | None, init_checkpoint: str, confirmed: bool) -> str:
    """The tokenizer's file. UsageError where it is not that of the weights, unless `confirmed`; the runs check again."""
    from nlpdata.tokenizers import load_tokenizer
    from pretrain.converters.same_tokenizer import refuse_other_tokenizer
    from pretrain.converters.tokenizer_files import find_tokenizer

    found = given or find_tokenizer(init_checkpoint)
    if not found:
        raise UsageError(f"no tokenizer beside {init_checkpoint}. Name it with --tokenizer.")
    loaded = load_tokenizer(found)
    refuse_other_tokenizer(loaded.path, loaded.meta(), Path(loaded.path), init_checkpoint, confirmed)
    return str(found)


def _scored(config: ExperimentConfig, run: Path) -> ExperimentConfig:
    """The experiment that evaluates the model of another run."""
    trainer = replace(config.trainer, best_checkpoint_export_subdir="")
    return replace(config, task=replace(config.task, init_checkpoint=str(run)), trainer=trainer)


def _records(name: str, splits: str, input: str, folder: Path, tokenizer: str, options: dict) -> Path:
    """The folder of a task's records, made where they are not there yet; `options`: of create_finetuning."""
    from nlpdata import create_finetuning
    from nlpdata.output import is_unfinished
    from nlpdata.records.contract import read_meta
    from nlpdata.tokenizers import load_tokenizer

    meta_path = folder / "meta.json"
    outputs = [str(folder / f"{split}.tfrecord") for split in splits.split(",")]
    if not meta_path.exists() or any(map(is_unfinished, outputs)):
        _log.info(f"{name}: making records: {folder}")
        create_finetuning(input, str(folder), tokenizer, task=name, splits=splits, **options)
        return folder
    meta = read_meta(meta_path)
    wanted = {"tokenizer": load_tokenizer(tokenizer).sha256, "max_seq_length": options["max_seq_length"]}
    found = {"tokenizer": meta.get("tokenizer", {}).get("sha256"), "max_seq_length": meta.get("max_seq_length")}
    other = [key for key in wanted if wanted[key] != found[key]]
    if other:
        raise UsageError(
            f"{folder} has records of another {other[0]} ({found[other[0]]}, expected {wanted[other[0]]}). Use another "
            "--output, or remove that folder."
        )
    return folder


def _task_layer(records: Path, dev: str, length: int, encoder, init_checkpoint: str) -> dict:
    def data(split):
        return {"input_path": f"{records / split}.tfrecord*", "seq_length": length}

    return {
        "task": {
            "init_checkpoint": init_checkpoint,
            "model": {"encoder": to_tree(encoder)},
            "train_data": data("train"),
            "validation_data": data(dev),
        }
    }


def _rows(results: dict[str, list[dict]]) -> list[dict]:
    rows, means = [], {}
    for task, scores in results.items():
        summary = summarize(scores)
        metrics = TASKS[task][0]
        rows += [{"task": task, "metric": metric, **summary[metric]} for metric in metrics]
        mean = sum(summary[metric]["median"] for metric in metrics) / len(metrics)
        means.setdefault(_SAME_MODEL.get(task, task), []).append(mean)
    average = sum(sum(each) / len(each) for each in means.values()) / len(means)
    return [*rows, {"task": "average", "metric": "", "median": average, "min": "", "max": "", "std": ""}]


def table_lines(rows: Sequence[dict]) -> list[str]:
    """The rows of `glue` as a table for people, in percent."""
    lines = [f"{'task':<16}{'metric':<20}{'median':>8}{'min':>8}{'max':>8}{'std':>8}"]
    for row in rows:
        numbers = [row[name] for name in ("median", "min", "max", "std")]
        cells = "".join(f"{100 * value:8.2f}" if value != "" else " " * 8 for value in numbers)
        lines.append(f"{row['task']:<16}{row['metric']:<20}{cells}".rstrip())
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code when called with argv, else exits."""
    return run_app(app, "glue", argv)


if __name__ == "__main__":
    main()
