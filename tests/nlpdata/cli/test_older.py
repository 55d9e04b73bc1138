"""Older options that are not one option here: spm_train's, and those of the scripts that make pretraining records."""

import pytest

from nlpdata.cli.aliases import rewrite
from nlpdata.cli.commands import option_names
from nlpdata.errors import UsageError
from tests.messages import messages

# As google-research/albert's README has it, word by word after the shell.
ALBERT = [
    *("--input", "all.txt", "--model_prefix=30k-clean", "--vocab_size=30000", "--logtostderr"),
    *("--pad_id=0", "--unk_id=1", "--eos_id=-1", "--bos_id=-1", "--control_symbols=[CLS],[SEP],[MASK]"),
    *('--user_defined_symbols=(,),",-,.,–,£,€', "--shuffle_input_sentence=true", "--input_sentence_size=10000000"),
    *("--character_coverage=0.99995", "--model_type=unigram"),
]


def rewritten(command: str, *argv: str) -> list[str]:
    known = frozenset(name.lstrip("-") for name in option_names(command))
    return rewrite(command, argv, frozenset({"hard-vocab-limit", "do-lower-case"}), known)


def test_the_command_of_albert():
    symbols = [
        word for symbol in '() " - . – £ €'.replace("()", "( )").split() for word in ("--user-defined-symbol", symbol)
    ]
    assert rewritten("train-tokenizer", *ALBERT) == [
        *("--input", "all.txt", "--output", "30k-clean", "--vocab-size=30000"),
        *symbols,
        *("--sample-lines", "10000000", "--character-coverage=0.99995", "--type", "unigram"),
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["--input_sentence_size=0"], ["--sample-lines", str(1 << 62)]),
        (["--input_sentence_size", "500"], ["--sample-lines", "500"]),
        (["--max_sentence_length=9000"], ["--max-line-bytes", "9000"]),
        (["--random_seed=7"], ["--seed", "7"]),
        (["--hard_vocab_limit=false"], ["--no-hard-vocab-limit"]),
        (['--user_defined_symbols=a,",",b c'], [w for s in ("a", ",", "b c") for w in ("--user-defined-symbol", s)]),
        (["--normalization_rule_name=nmt_nfkc_cf"], ["--do-lower-case"]),
        (
            ["-random_seed=7", "-input", "-", "-5", "-nohard_vocab_limit"],
            ["--seed", "7", "--input", "-", "-5", "--no-hard-vocab-limit"],
        ),
        (["--pad_piece=<pad>", "--byte_fallback=false", "--nosplit_digits", "--add_dummy_prefix"], []),
    ],
)
def test_what_options_of_spm_train_mean(old, new):
    assert rewritten("train-tokenizer", *old) == new


@pytest.mark.parametrize("word", ["--hard_vocab_limit", "-do_lower_case", "--split_digits", "--hard-vocab-limit"])
def test_the_value_of_a_switch_follows_an_equals_sign(word):
    with pytest.raises(UsageError, match=f"^{word} False: a switch takes its value after `=`. Write {word}=False"):
        rewritten("train-tokenizer", word, "False")


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("--num_threads=8", "--num_threads has no effect here: the number is fixed"),
        ("--train_extremely_large_corpus", "--train_extremely_large_corpus has no effect here"),
        ("--normalization_rule_name=nmt_nfkc", "case and accents are what --do-lower-case and --keep-accents say"),
    ],
)
def test_what_has_no_effect_is_reported(line, note):
    with messages() as notes:
        assert rewritten("train-tokenizer", line) == []
    assert note in notes[-1]


@pytest.mark.parametrize(
    ("command", "line", "message"),
    [
        ("train-tokenizer", "--pad_id=3", "--pad_id=3 is not possible here, only '0': a vocabulary here has <pad> 0"),
        ("train-tokenizer", "--byte_fallback", "--byte_fallback=true is not possible here, only 'false'"),
        ("train-tokenizer", "--noadd_dummy_prefix", "--add_dummy_prefix=false is not possible here"),
        ("train-tokenizer", "--shuffle_input_sentence=maybe", "--shuffle_input_sentence takes true or false"),
        ("train-tokenizer", "--normalization_rule_name=identity", "only nmt_nfkc, after ALBERT's own normalisation"),
        ("train-tokenizer", "--pad_id", "--pad-id needs a value"),
        ("train-tokenizer", "--control_symbol=x", "Did you mean --control-symbols?"),
        ("create-pretraining", "--do_permutation", "--do_permutation: records with permuted words"),
        ("create-pretraining", "--tokenization=BPE", "--tokenization is WordPiece or SentencePiece"),
        ("create-finetuning", "--tokenization=wordpiece", "--tokenization is WordPiece or SentencePiece"),
    ],
)
def test_what_is_not_possible(command, line, message):
    with pytest.raises(UsageError) as caught:
        rewritten(command, line)
    assert message in str(caught.value)
