"""WordPiece vocabularies: byte-pair merges of the words that BERT's basic tokenizer finds, in BERT's layout.

    [PAD] [UNK] [CLS] [SEP] [MASK], [unused0] ..., every character, ##characters, and pieces in the order of merging

Google has not published the learner of its vocabularies; Hugging Face's WordPieceTrainer merges pairs too, but gives
another vocabulary in every process (huggingface/tokenizers#1794). Here SentencePiece's BPE learns from a sorted list
of distinct words with their counts, so that the same text gives the same file, whatever the machine and its cores.
Its sign for a space begins a word: "▁the" becomes "the", and "ing" becomes "##ing".

Every character that the vocabulary covers is an entry, alone and, where it can stand inside a word, after "##": no
word of such characters is [UNK]. Punctuation and CJK ideographs are always words by themselves.
"""

import hashlib
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

import sentencepiece

from nlpdata.errors import DataError, UsageError
from nlpdata.text.bert import SEPARATOR, BasicTokenizer, is_ideograph, is_punctuation
from nlpdata.tokenizers.scripts import WORD_MARK
from nlpdata.tokenizers.training import ALBERT_SYMBOLS, TrainedVocabulary, TrainingOptions
from nlpdata.tokenizers.wordpiece import MAX_WORD_CHARACTERS
from nlpdata.tokenizers.wordpiece_vocabulary import CONTINUATION, SPECIAL_TOKENS

_LINES = 2000  # that are split together
_MAX_WORDS = 1 << 20  # distinct words between spaces, before they are counted as tokens
_MAX_PIECE_CHARACTERS = 32
# Signs of SentencePiece's own: it would read them as a space, or skip the word.
_RESERVED = frozenset((WORD_MARK, "\u2585", "\u2047", "\t"))


class WordPieceVocabularyTrainer:
    """Trains a vocab.txt; see `nlpdata.tokenizers.training.Trainer`."""

    suffixes = (".txt",)

    def __init__(self, options: TrainingOptions, unused_tokens: int = 0):
        """unused_tokens: so many entries [unused0], [unused1], ... to be given a meaning later; BERT has 99 or more."""
        self.options = options
        self.reserved = [*SPECIAL_TOKENS.values(), *(f"[unused{i}]" for i in range(unused_tokens))]
        if tuple(options.user_defined_symbols) not in ((), ALBERT_SYMBOLS):
            raise UsageError(
                f"user-defined symbols: received {' '.join(options.user_defined_symbols)}, but a WordPiece vocabulary "
                "has none: punctuation marks are words of their own as it is"
            )
        if options.vocab_size <= len(self.reserved):
            raise UsageError(
                f"--vocab-size: received {options.vocab_size}, but special and unused entries alone are "
                f"{len(self.reserved)}; expected more"
            )
        if not 0.98 <= options.character_coverage <= 1:
            raise UsageError(
                f"--character-coverage: received {options.character_coverage}, expected 0.98 to 1 (the share of the "
                "text's characters that the vocabulary must be able to spell)"
            )
        self._basic = BasicTokenizer(do_lower_case=options.do_lower_case, keep_accents=options.keep_accents)

    def normalize(self, lines: Sequence[str]) -> list[str]:
        """The lines as they are: the basic tokenizer normalises words, once they are counted."""
        return list(lines)

    def train(self, lines: Iterator[str]) -> TrainedVocabulary:
        """Raises DataError if the lines hold no word, UsageError if vocab_size is too low or too high for them."""
        counts = self._count_tokens(lines)
        if not counts:
            raise DataError("the text holds no word: after BERT's basic tokenizer nothing is left of its lines")
        alphabet = _alphabet(counts, self.options.character_coverage)
        entries = dict.fromkeys(self.reserved)
        entries |= dict.fromkeys(alphabet)
        entries |= dict.fromkeys(CONTINUATION + c for c in alphabet if not _stands_alone(c))
        wanted = self.options.vocab_size
        if len(entries) > wanted:
            raise UsageError(
                f"--vocab-size: received {wanted}, but special entries and the single characters of this corpus alone "
                f"are {len(entries)}. Use --vocab-size {len(entries)} or more, or a lower --character-coverage (now "
                f"{self.options.character_coverage})"
            )
        # The merges that it takes, were every first character merged with the sign for a space: those become entries
        # that are there already. SentencePiece counts its <unk>, the sign and the characters as well.
        merges = wanted - len(entries) + len(alphabet)
        for piece in _merge(counts, alphabet, merges + len(alphabet) + 2):
            if len(entries) == wanted:
                break
            entries.setdefault(piece)
        if len(entries) < wanted and self.options.hard_vocab_limit:
            raise UsageError(
                f"--vocab-size: received {wanted}, but this corpus yields at most {len(entries)} entries. "
                f"Use more text, --vocab-size {len(entries)}, or --no-hard-vocab-limit for as many as there are"
            )
        return self._result(list(entries))

    def _result(self, entries: list[str]) -> TrainedVocabulary:
        content = "".join(f"{entry}\n" for entry in entries).encode()
        sidecar = {
            "type": "wordpiece",
            "sha256": hashlib.sha256(content).hexdigest(),
            "vocab_size": len(entries),
            "do_lower_case": self.options.do_lower_case,
            "keep_accents": self.options.keep_accents,
        }
        return TrainedVocabulary({".txt": content}, len(entries), sidecar)

    def _count_tokens(self, lines: Iterator[str]) -> Counter:
        """Basic token -> how often it stands in the lines; without those that are too long to be other than [UNK]."""
        words, tokens = Counter(), Counter()
        lines = iter(lines)
        while batch := list(islice(lines, _LINES)):
            words.update(self._basic.words(batch))
            if len(words) > _MAX_WORDS:
                self._add_tokens(words, tokens)
                words.clear()
        self._add_tokens(words, tokens)
        return tokens

    def _add_tokens(self, words: Counter, tokens: Counter) -> None:
        words.pop(SEPARATOR, None)
        if not words:
            return
        counts = iter(words.values())
        count = next(counts)
        for token in self._basic.tokens(list(words)):
            if token == SEPARATOR:
                count = next(counts)
            elif len(token) <= MAX_WORD_CHARACTERS:
                tokens[token] += count


def _alphabet(counts: Counter, coverage: float) -> list[str]:
    """The most frequent characters that together are `coverage` of the text, by code point."""
    characters = Counter()
    for token, count in counts.items():
        for character in token:
            characters[character] += count
    for character in [c for c in characters if "\ud800" <= c <= "\udfff"]:  # lone surrogates are no text
        del characters[character]
    total, seen, kept = characters.total(), 0, []
    for character, count in sorted(characters.items(), key=lambda item: (-item[1], item[0])):
        if seen >= coverage * total:
            break
        seen += count
        kept.append(character)
    return sorted(kept)


def _stands_alone(character: str) -> bool:
    """True if the basic tokenizer never leaves this character inside a word."""
    return is_punctuation(character) or is_ideograph(character)


def _merge(counts: Counter, alphabet: list[str], size: int) -> list[str]:
    """WordPiece entries of more than a character, or beginning a word, in the order in which BPE merges them.

    size: of SentencePiece's vocabulary, single characters and all; it may end earlier.
    """
    covered = frozenset(alphabet) - _RESERVED
    words = sorted(token for token in counts if covered.issuperset(token))
    if not words:
        return []
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(f"{word}\t{counts[word]}" for word in words),
            input_format="tsv",
            model_writer=model,
            model_type="bpe",
            vocab_size=size,
            hard_vocab_limit=False,
            character_coverage=1.0,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            split_by_unicode_script=False,
            split_by_number=False,
            max_sentencepiece_length=_MAX_PIECE_CHARACTERS,
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            input_sentence_size=0,
            shuffle_input_sentence=False,
            num_threads=1,
            minloglevel=4,
        )
    except RuntimeError as error:
        raise DataError(f"the merges could not be learned: {str(error).rpartition('] ')[2] or error}") from None
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = processor.id_to_piece(list(range(1, processor.get_piece_size())))
    return [
        piece.removeprefix(WORD_MARK) if piece.startswith(WORD_MARK) else CONTINUATION + piece
        for piece in pieces
        if len(piece) > 1
    ]
