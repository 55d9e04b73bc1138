"""The tokenizer that a data section's examples were made with."""

from pathlib import Path

from nlpdata.records.contract import read_meta
from nlpdata.tokenizers import load_tokenizer
from nlpdata.tokenizers.files import fetch
from pretrain.data.corpus import names_corpus
from pretrain.data.question_files import names_questions
from pretrain.data.record_set import find_paths, meta_of
from pretrain.settings.data_section import DataConfig, PretrainingDataConfig, QuestionDataConfig, TextDataConfig


def reads_text(config: DataConfig) -> bool:
    """Whether a run tokenizes the examples of a data section itself, with the section's vocab_file."""
    of_tfds = isinstance(config, TextDataConfig) and bool(config.tfds_name)
    return of_tfds or names_questions(config) or names_corpus(config)


def tokenizer_of(config: DataConfig, name: str) -> tuple[Path, dict] | None:
    """The file, and the meta file's description of its use; None where no meta file names one, or it is not next to it.

    Args:
      name: name of the section, for messages.
    """
    path, use = tokenizer_entry(config, name)
    return (path, use) if path else None


def tokenizer_entry(config: DataConfig, name: str) -> tuple[Path | None, dict]:
    """The same, with the description also where the file is missing; (None, {}) where there is none."""
    if reads_text(config):
        assert isinstance(config, TextDataConfig | QuestionDataConfig | PretrainingDataConfig)
        tokenizer = load_tokenizer(config.vocab_file, do_lower_case=config.do_lower_case)
        return Path(tokenizer.path), tokenizer.meta()
    if not config.input_path:
        return None, {}
    meta_path = meta_of(config, find_paths(config, name)[0])
    if meta_path is None:
        return None, {}
    use = read_meta(meta_path).get("tokenizer", {})
    path = meta_path.parent / use["file"] if "file" in use else None
    return Path(fetch(str(path))) if path is not None and path.exists() else None, use
