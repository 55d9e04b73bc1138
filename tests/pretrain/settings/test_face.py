"""Options in messages of commands that lack them."""

from nlpdata.errors import UsageError, opt
from pretrain.settings.face import face_of


def test_options_that_a_command_lacks():
    face = face_of({"batch_size", "keep_accents"})
    error = UsageError(
        f"{opt('batch_size', 8)}, {opt('keep_accents', True)}; {opt('do_lower_case', False)}; {opt('doc_stride', 9)}; "
        f"{opt('num_train_steps', 5)}; {opt('model_config')}"
    )
    assert error.spelled(face) == (
        '--batch_size=8, --keep_accents; "do_lower_case": false in a tokenizer_config.json next to it; '
        "--doc-stride 9 of nlpdata create-finetuning; trainer.train_steps=5; --model_config of pretrain convert"
    )


def test_what_a_run_predicts_for():
    error = UsageError(
        f"{opt('input')}: no such column. Name it with {opt('text_column')}, or use {opt('header', False)}."
    )
    assert error.spelled(face_of({"predict_file"})) == (
        "--predict_file: no such column. Name it with --text_column of pretrain predict, or use --noheader of pretrain predict."
    )


def test_the_format_of_a_run_is_an_export_format():
    assert UsageError(f"Use {opt('format', 'hf')}.").spelled(face_of({"export_formats"})) == "Use --export_formats=hf."
