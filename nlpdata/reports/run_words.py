"""Facts of a run in words, for reports and model cards. What is not known is left out; nothing is made up."""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from nlpdata.reports.charts import Cell
from nlpdata.reports.page import count_of, percent
from nlpdata.reports.run_facts import Run, is_finite

Facts = dict[str, Cell]

_LARGEST_SCORE = 1e9  # more has no place in a column

_OUTCOMES = {
    "finished": "finished",
    "stopped_early": "finished: stopped early",
    "max_time": "not finished: its time was up (trainer.max_time)",
    "steps_a_call": "not finished: to be resumed (trainer.steps_a_call)",
    "interrupted": "not finished: interrupted",
    "failed": "not finished: failed",
    "unfinished": "not finished: running, or killed",
}
_OBJECTIVES = {
    "sop": "masked words and sentence order",
    "nsp": "masked words and next sentence",
    "none": "masked words",
}
_TASKS = {
    "pretraining": "pretraining",
    "classification": "classification of texts",
    "multilabel": "several labels for a text",
    "regression": "a number for a text",
    "squad": "questions about a text",
    "choice": "one text of several that compete",
}


def outcome(code: str) -> str:
    """How a run or a call ended, from its `outcome`; one that is not at the run's end says so first."""
    return _OUTCOMES.get(code, f"not known: {code[:40]}")


def steps(run: Run) -> str:
    """The steps that were taken, of those of the run."""
    return f"{run.step:,} of {run.steps:,}" if run.steps is not None else f"{run.step:,}"


def encoder(run: Run) -> str:
    """The encoder that is configured, with its depth: of stages that deepen it, that of the stage the run has come to."""
    kind, options = run.encoder
    begun = [stage for stage in run.about.get("stages", []) if stage.get("first_step", 0) <= max(run.step, 1)]
    own = begun[-1].get("num_hidden_layers") if begun else None
    depth = cell(options.get("num_hidden_layers") if own is None else own)
    return f"{kind}, {count_of(depth, 'layer')}" if isinstance(depth, int) else kind


def architecture(kind: str, options: Mapping[str, Any]) -> Facts:
    """An encoder's type and the sizes of its options."""
    names = {
        "num_hidden_layers": "layers",
        "hidden_size": "hidden size",
        "embedding_size": "embedding size",
        "num_attention_heads": "attention heads",
        "intermediate_size": "feed-forward size",
        "hidden_act": "activation",
        "max_position_embeddings": "longest sequence, in tokens",
        "vocab_size": "rows of the embedding",
    }
    found: Facts = {"encoder": kind} if kind else {}
    return found | {words: cell(options[name]) for name, words in names.items() if options.get(name) is not None}


def training(run: Run) -> Facts:
    """How the weights were learned: data, batch, learning rate, precision, seeds."""
    config, stages = run.config, run.about.get("stages", [])
    kind, rate = config.get("trainer.optimizer_config.optimizer.type"), run.about.get("learning_rate")
    found: Facts = {"steps": steps(run), "how it ended": outcome(run.outcome)}
    for name, words in (
        ("batch_size", "examples a step"),
        ("seq_length", "sequence length, in tokens"),
        ("examples", "examples of an epoch"),
    ):
        values = [stage[name] for stage in stages if stage.get(name) is not None]
        if values:
            found[words] = values[0] if len(set(values)) == 1 else ", then ".join(f"{value:,}" for value in values)
    if not stages and config.get("task.train_data.global_batch_size"):
        found["examples a step"] = cell(config["task.train_data.global_batch_size"])
    if len(stages) == 1 and stages[0].get("steps_per_epoch") and run.step:
        found["epochs"] = round(run.step / stages[0]["steps_per_epoch"], 2)
    if kind:
        found["optimizer"] = str(kind)
        decay = config.get(f"trainer.optimizer_config.optimizer.{kind}.weight_decay_rate")
        if decay is not None:
            found["weight decay"] = cell(decay)
    if rate:
        found["learning rate"] = str(rate)
    for path, words in (
        ("runtime.mixed_precision_dtype", "precision"),
        ("runtime.seed", "seed of weights and dropout"),
        ("task.train_data.seed", "seed of the order of the data"),
    ):
        if config.get(path) is not None:
            found[words] = str(config[path])
    return found


def records(section: Mapping[str, Any], evaluation: bool = False) -> Facts:
    """What a run says of data (`stages[i]` of run.json, or eval_data.json): its examples, and facts of the record set.

    Args:
      section: what the run says.
      evaluation: whether the records were evaluated on, whose dynamic masks are the same each time.

    Sentences and tokens of pretraining records are those of the text of which they were made, documents set aside included.
    """
    found: Facts = {}
    meta = _object(section, "records")
    options, tokenizer = _object(meta, "options"), _object(meta, "tokenizer")
    if section.get("examples") is not None:
        found["examples"] = section["examples"]
    kind = str(meta.get("task_type", "")).rpartition("_")[2]
    if kind in _TASKS:
        found["task"] = _TASKS[kind]
    if isinstance(meta.get("processor_type"), str) and meta["processor_type"] not in _TASKS:
        found["data set"] = meta["processor_type"]
    objective = str(meta.get("objective"))
    if objective in _OBJECTIVES:
        found["objective"] = _OBJECTIVES[objective]
    names = meta.get("label_names")
    if isinstance(names, list) and names and kind in ("classification", "multilabel"):
        found["labels"] = listed(names, 12)
    if section.get("seq_length") is not None:
        found["sequence length, in tokens"] = section["seq_length"]
    found |= _masking(options, section.get("masked_lm_prob"), evaluation)
    if meta.get("split") != "eval" and options.get("dupe_factor") is not None:  # what is set aside is cut once
        found["copies of the text"] = cell(options["dupe_factor"])
    found |= _counts(_counters(section, meta), str(meta.get("split")))
    if tokenizer:
        found["tokenizer"] = str(tokenizer.get("type", ""))
        if tokenizer.get("vocab_size") is not None:
            found["vocabulary"] = cell(tokenizer["vocab_size"])
        found |= casing(tokenizer)
    sources = meta.get("inputs")
    inputs = (
        [str(each["file"]) for each in sources if isinstance(each, dict) and "file" in each]
        if isinstance(sources, list)
        else []
    )
    if inputs:
        more = meta.get("more_inputs")
        count = len(inputs) + (more if isinstance(more, int) else 0)
        of_all = " of all splits" if len(_object(meta, "splits")) > 1 and count > 1 else ""
        found[f"input{of_all}"] = listed(inputs, 8, count)
    return found


def _object(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = content.get(name)
    return found if isinstance(found, dict) else {}


def _masking(options: Mapping[str, Any], own_share: float | None, evaluation: bool) -> Facts:
    """`own_share`: that of a run, where it masks dynamically."""
    if options.get("masking") not in ("static", "dynamic"):
        return {}
    if options["masking"] == "static":
        found: Facts = {"masking": "static, stored in the records"}
    else:
        found = {"masking": "dynamic, in the same places each time" if evaluation else "dynamic, anew in each epoch"}
    share = options.get("masked_lm_prob") if own_share is None else own_share
    if is_finite(share):
        found["masked share of the tokens"] = percent(share, 1)
    if options.get("max_ngram") is not None:
        found["longest masked n-gram, in words"] = cell(options["max_ngram"])
    return found


def remark(classes: Mapping[str, Any]) -> str:
    """A sentence on all predictions of an evaluation (`Run.classes`), e.g. that they are the same; "" where there is none."""
    told = str(classes.get("remark", ""))[:400]
    return f"In its evaluation {told}." if told else ""


def units(metrics: Container[str]) -> str:
    """A sentence on those of the metrics that are in percent; "" where none is."""
    if "exact_match" not in metrics:
        return ""
    return (
        "Scores of answers are in percent: exact_match and f1, and those that begin with HasAns, NoAns and best, but not "
        "thresholds."
    )


def casing(options: Mapping[str, Any]) -> Facts:
    """What a tokenizer does with upper case and accents, where its options say so."""
    names = {"do_lower_case": "lower-cases", "keep_accents": "keeps accents"}
    return {
        words: "yes" if options[name] is True else "no"
        for name, words in names.items()
        if options.get(name) is not None
    }


def data_name(section: Mapping[str, Any]) -> str:
    """What data is called: the data set or the input of its records, and the files that were read; "" where neither is known."""
    meta = _object(section, "records")
    kind, sources = meta.get("processor_type"), meta.get("inputs")
    inputs = [str(each.get("file")) for each in sources if isinstance(each, dict)] if isinstance(sources, list) else []
    own = kind[:80] if isinstance(kind, str) and kind not in _TASKS else listed(inputs, 1) if len(inputs) == 1 else ""
    files = section.get("files")
    read = listed(files, 3) if isinstance(files, list) and files else ""
    return f"{own} ({read})" if own and read else own or read


def _counters(section: Mapping[str, Any], meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """The counters of the record set; of one with several splits those of the split that was read, {} where that is not clear."""
    splits, files = _object(meta, "splits"), section.get("files")
    if not splits:
        return _object(meta, "counters")
    read = {str(name).partition(".")[0].partition("-")[0] for name in files} if isinstance(files, list) else set()
    found = [each for name, each in splits.items() if name in read and isinstance(each, dict)]
    return _object(found[0], "counters") if len(found) == 1 else {}


def _counts(counters: Mapping[str, Any], split: str) -> Facts:
    """Counts of a record set; of pretraining, `split` ("train", "eval") has documents of its own, all else is of the whole text."""
    of_text = " of the text" if "documents" in counters else ""
    documents = counters.get(f"documents_{split}", counters.get("documents"))
    found: Facts = {"documents": documents} if is_finite(documents) else {}
    found |= {
        f"{name}{of_text}": counters[name] for name in ("sentences", "rows", "tokens") if is_finite(counters.get(name))
    }
    tokens = counters.get("tokens")
    for name, words in (("tokens_unknown", "tokens unknown to the tokenizer"), ("tokens_truncated", "tokens cut off")):
        part = counters.get(name)
        if is_finite(tokens) and is_finite(part):
            found[words] = percent(part, tokens)
    return found


def environment(run: Run) -> Facts:
    """What the run ran on; where its calls differ, each value once, in their order."""
    calls: Sequence[Mapping[str, Any]] = run.calls or ([run.state] if run.state else [])
    found: Facts = {}
    for name, words in (
        ("device", "device"),
        ("replicas", "replicas"),
        ("cores", "CPU cores"),
        ("backend", "backend"),
        ("python", "Python"),
        ("system", "system"),
    ):
        found |= _distinct(words, (call.get(name) for call in calls))
    stored = [call["versions"] if isinstance(call.get("versions"), dict) else {} for call in calls]
    for package in sorted({str(package) for versions in stored for package in versions}):
        found |= _distinct(package, (versions.get(package) for versions in stored))
    return found


def _distinct(words: str, values: Iterator[Any]) -> Facts:
    found = list(dict.fromkeys(cell(value) for value in values if value not in (None, "")))
    if not found:
        return {}
    return {words: found[0] if len(found) == 1 else ", then ".join(map(str, found[-4:]))}


def cell(value: Any) -> Cell:
    """A value of JSON or YAML, as a table shows it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if is_finite(value) or isinstance(value, str | float):
        return value
    return "a number of hundreds of digits" if isinstance(value, int) else str(value)


def sweep_score(value: object, in_percent: bool) -> str | None:
    """A score in the table of a sweep, as the screen and the report have it; None for what is not a finite number.

    in_percent: whether it is a share of 1 and shown in percent, with two digits, as of GLUE; else it has four.
    """
    if not is_finite(value):
        return None
    number, digits = (100 * value, 2) if in_percent else (value, 4)
    return f"{number:.{digits}f}" if abs(number) < _LARGEST_SCORE else f"{number:.4g}"


def listed(names: Sequence[str], most: int, count: int | None = None) -> str:
    """The first names, and how many there are in all, `count` where `names` are not all."""
    total = len(names) if count is None else count
    return ", ".join(str(name)[:80] for name in names[:most]) + (f", ... ({total:,} in all)" if total > most else "")
