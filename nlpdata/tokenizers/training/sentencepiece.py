"""SentencePiece vocabularies by the recipe of google-research/albert's README.

Pieces: <pad> 0, <unk> 1, [CLS] 2, [SEP] 3, [MASK] 4, then the user-defined symbols; no <s> and </s>. Control symbols
never come out of text. User-defined symbols are always separate pieces, also inside a word, and what comes
before them keeps the sign for a space: with "(" and ")", "(a)" becomes "▁", "(", "a", ")" (google/sentencepiece#438
is about that lone "▁"); it counts as a word in whole-word masking, as in ALBERT.
"""

import hashlib
import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sentencepiece

from nlpdata.errors import DataError, UsageError, opt
from nlpdata.text.albert import normalize_lines
from nlpdata.tokenizers.sentencepiece import without_surrogates
from nlpdata.tokenizers.training.options import TrainingOptions
from nlpdata.tokenizers.training.trainers import TrainedVocabulary, too_few_pieces

PAD, UNKNOWN = "<pad>", "<unk>"
CONTROL_SYMBOLS = ("[CLS]", "[SEP]", "[MASK]")
# SentencePiece adds up expected counts thread by thread, so another number of threads gives other scores, and in
# unigram models other pieces, from the same text. One number for every machine gives every machine the same bytes;
# with fewer cores the threads take turns.
THREADS = 16
_TOO_HIGH = re.compile(r"Vocabulary size too high \(\d+\)\. Please set it to a value <= (\d+)")
_TOO_SMALL = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")


class SentencePieceVocabularyTrainer:
    """Trains unigram and BPE models; see `nlpdata.tokenizers.training.trainers.Trainer`."""

    suffixes = (".model", ".vocab")

    def __init__(self, options: TrainingOptions) -> None:
        self.options = options
        symbols = options.user_defined_symbols
        taken = {PAD, UNKNOWN, *CONTROL_SYMBOLS}
        for symbol in symbols:
            if not symbol or symbol in taken:
                what = "is given twice, or is a special piece" if symbol else "is empty"
                raise UsageError(
                    f"{opt('user_defined_symbols')}: {symbol!r} {what}. Expected distinct, non-empty strings."
                )
            taken.add(symbol)
        if options.vocab_size <= len(taken):
            raise UsageError(
                f"{opt('vocab_size', options.vocab_size)} is too small: special pieces and user-defined symbols alone are "
                f"{len(taken)}: {' '.join([PAD, UNKNOWN, *CONTROL_SYMBOLS, *symbols])}."
            )

    def normalize(self, lines: Sequence[str]) -> list[str]:
        return normalize_lines(lines, do_lower_case=self.options.do_lower_case, keep_accents=self.options.keep_accents)

    def can_spell(self, trained: TrainedVocabulary) -> Callable[[str], bool]:
        processor = sentencepiece.SentencePieceProcessor(model_proto=trained.files[".model"])
        return lambda character: processor.unk_id() not in processor.encode(without_surrogates(character))

    def spelt(self, lines: list[str]) -> list[str]:
        """Composed: the trainer's own normalisation (nmt_nfkc) comes after ours."""
        return sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc").normalize(
            [without_surrogates(line) for line in lines]
        )

    def train(self, lines: Iterator[str]) -> TrainedVocabulary:
        options = self.options
        content = train_model(
            lines,
            lambda message: _explained(message, options),
            model_type=options.type,
            vocab_size=options.vocab_size,
            character_coverage=options.character_coverage,
            hard_vocab_limit=options.hard_vocab_limit,
            pad_id=0,
            unk_id=1,
            pad_piece=PAD,
            unk_piece=UNKNOWN,
            control_symbols=list(CONTROL_SYMBOLS),
            user_defined_symbols=list(options.user_defined_symbols),
            max_sentence_length=options.max_line_bytes,  # longer lines are sorted out, and counted, before
        )
        processor = sentencepiece.SentencePieceProcessor(model_proto=content)
        size = processor.get_piece_size()
        rows = [f"{processor.id_to_piece(i)}\t{processor.get_score(i):g}\n" for i in range(size)]
        sidecar = {
            "type": "sentencepiece",
            "model_type": options.type,
            "sha256": hashlib.sha256(content).hexdigest(),
            "vocab_size": size,
            "do_lower_case": options.do_lower_case,
            "keep_accents": options.keep_accents,
            "digit_comma": True,  # as ALBERT uses every model
        }
        return TrainedVocabulary({".model": content, ".vocab": "".join(rows).encode()}, size, sidecar)


def train_model(lines: Iterator[str], explained: Callable[[str], Exception], **settings: Any) -> bytes:
    """Trains a model without <s> and </s>, the same on every machine; its content.

    Args:
      lines: normalised text.
      explained: the error to raise for a message of SentencePiece's trainer.
      settings: further settings of SentencePieceTrainer.
    """
    failures: list[BaseException] = []
    model = io.BytesIO()
    try:
        # From an iterator into a stream: a model stores its training options, and paths would be among them.
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_keep_failures(lines, failures),
            model_writer=model,
            bos_id=-1,
            eos_id=-1,
            input_sentence_size=0,  # sampling is done before, by key
            shuffle_input_sentence=False,
            num_threads=THREADS,
            minloglevel=4,
            **settings,
        )
    except RuntimeError as error:
        if failures:  # what the lines raised, such as a DataError with file and offset
            raise failures[0] from None
        raise explained(str(error)) from None
    return model.getvalue()


def _keep_failures(lines: Iterator[str], failures: list[BaseException]) -> Iterator[str]:
    """SentencePiece makes a RuntimeError of whatever its iterator raises: keep the original."""
    try:
        for line in lines:
            yield without_surrogates(line)
    except GeneratorExit:
        raise
    except BaseException as error:
        failures.append(error)
        raise


def _explained(message: str, options: TrainingOptions) -> Exception:
    """The user's error for a message of SentencePiece's trainer."""
    if found := _TOO_HIGH.search(message):
        return too_few_pieces(options, int(found[1]))
    if (least := least_pieces(message)) is not None:
        return too_small(least, "the special pieces and single characters", options)
    return failed(message)


def least_pieces(message: str) -> int | None:
    """How many pieces a corpus needs at least, where SentencePiece's trainer says that there are more than wanted; else None."""
    found = _TOO_SMALL.search(message)
    return int(found[1]) if found else None


def too_small(least: int, what: str, options: TrainingOptions) -> UsageError:
    """The error of a vocabulary that has fewer entries than `what` in its corpus, which are `least`."""
    return UsageError(
        f"{opt('vocab_size', options.vocab_size)} is too small: {what} of this corpus alone are {least}. Use "
        f"{opt('vocab_size', least)} or more, or a lower {opt('character_coverage')} (now {options.character_coverage})."
    )


def failed(message: str) -> DataError:
    """The error for any other message of SentencePiece's trainer, without its place in the source."""
    reason = message.rpartition("] ")[2].strip() or message
    return DataError(f"SentencePiece could not train the vocabulary: {reason}")
