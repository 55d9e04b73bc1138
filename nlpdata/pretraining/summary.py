"""What create_pretraining reports of its result: the meta file's content, and warnings about the corpus."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from nlpdata.corpus import CorpusFile
from nlpdata.errors import opt
from nlpdata.files.paths import shown_name
from nlpdata.pretraining.objectives import find_objective
from nlpdata.pretraining.options import PretrainingOptions
from nlpdata.records.contract import FORMAT_VERSION
from nlpdata.text import loss

LONG_SENTENCE = 0.25  # of max_seq_length; sentences of that many tokens on average are probably whole documents
SENTENCE = 64  # tokens; lines with fewer on average are sentences
LONG_DOCUMENT = 10_000  # sentences; more is probably a corpus without blank lines
MAX_LISTED = 10_000  # input files that are listed by name


def dropped_by_reason(counters: Mapping[str, int]) -> dict[str, int]:
    """The sentences that were left out: reason -> count, reasons with none left out."""
    reasons = {name.removeprefix("dropped/"): count for name, count in counters.items() if name.startswith("dropped/")}
    return {reason: count for reason, count in sorted(reasons.items()) if count}


def meta_content(
    split: str,
    options: PretrainingOptions,
    tokenizer: dict,
    shards: Sequence[dict],
    inputs: Sequence[dict],
    counters: Counter,
) -> dict:
    """The meta file of one split: see nlpdata.records.contract. It holds no time, host or absolute path.

    `tokenizer` is its entry, with `file`; `shards` are ShardInfo as dicts, `inputs` as of list_inputs.
    """
    chosen, objective = options.affecting_bytes(), find_objective(options.objective)
    counts: dict[str, Any] = {name: count for name, count in sorted(counters.items()) if "/" not in name}
    counts |= {"dropped": dropped_by_reason(counters), "examples": counters[f"examples_{split}"]}
    return {
        "format_version": FORMAT_VERSION,
        "task_type": objective.task_type,
        "objective": chosen["objective"],
        "split": split,
        "label_names": list(objective.label_names),
        "train_data_size": counters["examples_train"],
        "eval_data_size": counters["examples_eval"],
        "max_seq_length": chosen["max_seq_length"],
        "max_predictions_per_seq": chosen["max_predictions_per_seq"],
        "options": chosen,
        "seed": chosen["seed"],
        "tokenizer": tokenizer,
        "shards": [{name: info[name] for name in ("file", "records", "crc32c")} for info in shards],
        "inputs": inputs,
        "counters": counts,
    }


def list_inputs(files: Sequence[CorpusFile]) -> list[dict]:
    """The meta file's entries of the input files: the first MAX_LISTED, and one entry for all others.

    Readers load it with every set of records, so it must stay small.
    """
    listed = [{"file": shown_name(file.name), "bytes": file.size} for file in files[:MAX_LISTED]]
    others = files[MAX_LISTED:]
    if others:
        listed.append({"file": "*", "bytes": sum(file.size for file in others), "files": len(others)})
    return listed


def losses(counters: Mapping[str, int], options: PretrainingOptions, tokenizer: Mapping) -> list[loss.Loss]:
    """The text that pretraining does not get; `tokenizer`: the meta file's entry."""

    def cause(mean: float) -> str:
        if mean > max(LONG_SENTENCE * options.max_seq_length, SENTENCE):
            return (
                f"a line should be a sentence, and has {mean:.0f} tokens on average. Is each line a whole document? Split the "
                "text into sentences, one a line, with a blank line between documents; or use "
                f"{opt('objective', 'none')}, which cuts nothing"
            )
        return (
            f"pairs are longer than that. Use a greater {opt('max_seq_length')}, or {opt('objective', 'none')}, which cuts "
            "nothing"
        )

    cut = loss.cut_tokens(counters, options.max_seq_length, cause)
    if counters["tokens"] < SENTENCE * counters["sentences"]:  # they are sentences, and the length is short on purpose
        cut = cut.only_reported()
    return [cut, loss.unknown_tokens(counters, tokenizer)]


def corpus_warnings(counters: Mapping, where: Mapping[str, str], pairs: bool = True) -> list[str]:
    """What looks wrong about the corpus.

    Args:
      counters: as they are counted, or of a meta file.
      where: the places that are known: of the longest document, and of the first one with an empty sentence.
      pairs: whether the text becomes pairs of sentences; else documents of one are not a fault.
    """
    found = []
    dropped = counters.get("dropped") or dropped_by_reason(counters)
    lone, documents, sentences = (counters[name] for name in ("one_sentence_documents", "documents", "sentences"))
    if pairs and lone * 2 > documents > 0:
        found.append(
            f"{lone} of {documents} documents ({lone / documents:.0%}) hold one sentence. Is there a blank line "
            "after every sentence? A blank line ends a document"
        )
    if counters["longest_document"] > LONG_DOCUMENT:
        found.append(
            f"{where.get('longest_document', 'the corpus')}: a document of {counters['longest_document']} sentences: is a "
            "blank line missing between documents?"
        )
    if dropped.get("line_too_long"):
        found.append(
            f"{dropped['line_too_long']} lines of more than 16 MiB were left out: are the line ends missing? A line "
            "should be a sentence"
        )
    if dropped.get("invalid_utf8", 0) * 2 > sentences:
        found.append(
            f"{dropped['invalid_utf8']} of {sentences} sentences were left out, as they are not UTF-8: is the text in "
            "another encoding? Convert it, e.g. with iconv"
        )
    if dropped.get("empty_after_tokenization", 0) * 10 > sentences:
        first = where.get("empty_after_tokenization")
        found.append(
            f"of {dropped['empty_after_tokenization']} of {sentences} sentences the tokenizer's normalisation left nothing: "
            "do they hold text?" + (f" The first one is in the document at {first}" if first else "")
        )
    return found
