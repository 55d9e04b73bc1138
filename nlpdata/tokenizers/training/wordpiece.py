"""WordPiece vocabularies, trained by SentencePiece's BPE over BERT's basic tokens.

BPE merges the most frequent pair of pieces, as the trainers in use for BERT vocabularies do; SentencePiece's gives the
same result on every run and machine (Hugging Face's does not: huggingface/tokenizers#1794) and is already installed. Its
pieces become WordPiece's: what begins a word loses the word mark, what continues one gets "##". Every character of the
alphabet is an entry in both forms, so that no word of known characters is [UNK].

Entries: [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, the alphabet, then merges from frequent to rare.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence

import sentencepiece

from nlpdata.errors import UsageError, opt
from nlpdata.text.bert import BasicTokenizer
from nlpdata.tokenizers.training.options import ALBERT_SYMBOLS, TrainingOptions
from nlpdata.tokenizers.training.sentencepiece import failed, least_pieces, too_small, train_model
from nlpdata.tokenizers.training.trainers import TrainedVocabulary, too_few_pieces
from nlpdata.tokenizers.wordpiece_vocabulary import CONTINUATION, SPECIAL_TOKENS

_MARK = "▁"
_LEAST = "the special tokens and the alphabet"  # that a vocabulary holds


class WordPieceVocabularyTrainer:
    """Trains `vocab.txt` files; see `nlpdata.tokenizers.training.trainers.Trainer`."""

    suffixes = (".txt",)

    def __init__(self, options: TrainingOptions) -> None:
        self.options = options
        self._basic = BasicTokenizer(do_lower_case=options.do_lower_case, keep_accents=options.keep_accents)
        if options.user_defined_symbols not in ((), ALBERT_SYMBOLS):
            raise UsageError(
                f"{opt('user_defined_symbols')} belongs to SentencePiece vocabularies, not to {opt('type', 'wordpiece')}."
            )
        if options.vocab_size <= len(SPECIAL_TOKENS):
            raise UsageError(
                f"{opt('vocab_size')} must be more than {len(SPECIAL_TOKENS)}. Received: {options.vocab_size}."
            )

    def normalize(self, lines: Sequence[str]) -> list[str]:
        """The basic tokens of each line, one space between them."""
        return self._basic.lines(lines)

    def can_spell(self, trained: TrainedVocabulary) -> Callable[[str], bool]:
        return set(trained.files[".txt"].decode().split("\n")).__contains__

    def spelt(self, lines: list[str]) -> list[str]:
        return lines

    def train(self, lines: Iterator[str]) -> TrainedVocabulary:
        options = self.options
        wanted = options.vocab_size
        entries = _entries(self._merges(lines), wanted, options)
        if len(entries) < wanted and options.hard_vocab_limit:
            raise too_few_pieces(options, len(entries))
        content = "".join(f"{entry}\n" for entry in entries).encode()
        sidecar = {
            "type": "wordpiece",
            "sha256": hashlib.sha256(content).hexdigest(),
            "vocab_size": len(entries),
            "do_lower_case": options.do_lower_case,
            "keep_accents": options.keep_accents,
        }
        return TrainedVocabulary({".txt": content}, len(entries), sidecar)

    def _merges(self, lines: Iterator[str]) -> list[str]:
        """SentencePiece's pieces in the order of its merges, then its alphabet."""
        content = train_model(
            lines,
            lambda message: _explained(message, self.options),
            model_type="bpe",
            vocab_size=2 * self.options.vocab_size,  # some of its pieces give no entry of their own
            character_coverage=self.options.character_coverage,
            hard_vocab_limit=False,
            normalization_rule_name="identity",
            split_by_unicode_script=False,
            split_by_number=False,
            unk_id=0,
            max_sentence_length=1 << 30,
        )
        processor = sentencepiece.SentencePieceProcessor(model_proto=content)
        return [processor.id_to_piece(i) for i in range(1, processor.get_piece_size())]


def _entries(pieces: list[str], wanted: int, options: TrainingOptions) -> list[str]:
    alphabet = sorted({piece for piece in pieces if len(piece) == 1 and piece != _MARK})
    entries = dict.fromkeys(SPECIAL_TOKENS)
    entries |= dict.fromkeys(alphabet)
    entries |= dict.fromkeys(CONTINUATION + character for character in alphabet)
    if len(entries) > wanted:
        raise too_small(len(entries), _LEAST, options)
    for piece in pieces:
        if len(entries) == wanted:
            break
        if piece != _MARK:
            entries.setdefault(piece[1:] if piece.startswith(_MARK) else CONTINUATION + piece)
    return list(entries)


def _explained(message: str, options: TrainingOptions) -> Exception:
    """The user's error for a message of SentencePiece's trainer, which counts the alphabet, the word mark and its unknown piece."""
    found = least_pieces(message)
    return failed(message) if found is None else too_small(len(SPECIAL_TOKENS) + 2 * (found - 2), _LEAST, options)
