"""The groups of options on the help screens of nlpdata's commands."""

_GROUPS = {
    "Input": (
        "input", "more", "files", "task", "tfds", "tfds_data_dir", "tfds_splits", "splits", "dev_input", "test_input",
        "eval_fraction", "language", "level", "text_key", "limit_documents", "invalid_utf8", "on_bad_row", "accept_loss",
        "sample_lines", "max_line_bytes", "limit", "first", "evaluation", "ngram",
    ),
    "Format": (
        "text_field", "text_column", "text_b_column", "choice_columns",
        "label_column", "label_separator", "header", "format", "delimiter", "encoding",
    ),
    "Documents and sentences": ("documents", "line_breaks", "max_sentence_bytes"),
    "What is left out": (
        "deduplicate_documents", "deduplicate_lines", "near_duplicates", "min_characters", "max_characters", "scripts",
        "min_script_share", "keep_languages",
    ),
    "Labels": ("labels", "drop_labels", "label_order"),
    "Tokenizer": (
        "tokenizer", "type", "vocab_size", "character_coverage", "user_defined_symbols", "hard_vocab_limit", "do_lower_case",
        "keep_accents", "digit_comma",
    ),
    "What an example holds": (
        "objective", "max_seq_length", "short_seq_prob", "dupe_factor", "pack_across_documents", "nsp_scope",
    ),
    "Masking": (
        "masking", "max_predictions_per_seq", "masked_lm_prob", "max_ngram", "favor_shorter_ngram", "whole_word",
    ),
    "Questions (squad)": ("doc_stride", "max_query_length", "version_2_with_negative", "windows_without_answer"),
    "Multiple choice (choice, race, swag)": ("max_qa_length", "blank"),
    "Output": (
        "output", "meta", "num_shards", "compression", "feature_names", "train_output", "dev_output", "test_output",
        "overwrite",
    ),
    "How it runs": ("seed", "workers", "chunk_size", "runner", "dry_run"),
}  # fmt: skip


def group_of_field(name: str) -> str | None:
    """The group of an option by the name of its field; None where it has none yet."""
    return next((title for title, names in _GROUPS.items() if name in names), None)
