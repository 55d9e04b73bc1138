"""SentencePiece models, as ALBERT uses them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from nlpdata.errors import DataError, Message, opt
from nlpdata.files.json_kinds import SURROGATE
from nlpdata.protobuf import read_varint
from nlpdata.text.albert import normalize_lines
from nlpdata.tokenizers import SPECIAL_ROLES, Tokenizer, TokenizerSpec
from nlpdata.tokenizers.files import read_checked, refuse_sentencepiece_vocab
from nlpdata.tokenizers.hf import is_json, parse_tokenizer_json
from nlpdata.tokenizers.hf_next_to import contradiction
from nlpdata.tokenizers.scripts import WORD_MARK, begins_word, byte_begins_word
from nlpdata.tokenizers.sentencepiece_model import USER_DEFINED, SentencePieceModel
from nlpdata.tokenizers.stored import complete_special_tokens, stored_options
from nlpdata.tokenizers.unigram import read_unigram

ALBERT_OPTIONS = {"do_lower_case": True, "keep_accents": False, "digit_comma": True}
SPECIAL_PIECES = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model with ALBERT's special pieces and text normalisation.

    Ids come from the model's own `encode`, never from pieces looked up again, so a literal "[SEP]" in the text is
    never the control id (in google-research/albert it is where the model knows none of its characters).

    digit_comma: `encode_pieces` of google-research/albert (from XLNet) cuts a piece that ends in a digit and
    a comma, such as "▁9,": the part before the comma is segmented by itself, the "▁" that this puts in front is
    dropped unless the piece had one, and the comma becomes its own piece. Under Python 3 the original compares text
    with bytes, so that the "▁" stays; ours does what the code says it means to do, and what it did under Python 2.
    The outcome depends on the piece alone: it is a table, and free for a vocabulary without such pieces.
    """

    kind = "sentencepiece"

    def __init__(self, spec: TokenizerSpec) -> None:
        """Loads the file at spec.path, a model or a tokenizer.json of the type Unigram.

        DataError if it is neither, or lacks special pieces; UsageError if it is absent, or asks for what cannot be done.
        """
        self.path = spec.path
        content, self.sha256 = read_checked(spec.path, spec.sha256)
        described: dict[str, Any] = {}
        if is_json(content):
            fast = parse_tokenizer_json(spec.path, content)
            content, described = read_unigram(spec.path, fast)
        self._model, self._all_pieces = _parse(Path(spec.path), content)
        self.vocab_size = len(self._all_pieces)
        self.notes: list[str] = []
        self.spec = self._complete(spec, described)
        self._find_special_pieces()
        self._split = _digit_comma_table(self._model, self._all_pieces) if self.spec.digit_comma else None

    def _find_special_pieces(self) -> None:
        model, names = self._model, self.spec.special_tokens or ()
        self.unk_id = model.unk_id()
        pad, _, cls, sep, mask = names[: len(SPECIAL_ROLES)]
        ids = {piece: model.piece_to_id(piece) for piece in names}  # unk_id for what is not a piece
        if model.pad_id() >= 0:
            ids[pad] = model.pad_id()
        missing = [piece for piece in (pad, cls, sep, mask) if ids[piece] == self.unk_id]
        if missing:
            raise DataError(
                f"{self.path} lacks the special pieces {', '.join(missing)} (it has {self.vocab_size} pieces, the "
                f"first: {' '.join(self._all_pieces[:5])}), so sequences cannot be built with it. Train a vocabulary "
                "that has them: nlpdata train-tokenizer --input 'data/*.txt' --output tok/spm --vocab-size 30000"
            )
        self.pad_id, self.cls_id, self.sep_id, self.mask_id = (ids[piece] for piece in (pad, cls, sep, mask))
        self._special = {*ids.values(), self.unk_id}
        mark = model.piece_to_id("\u2581")
        self.mark_id = None if mark == self.unk_id else mark  # of a word whose mark is a separate piece

    def _complete(self, spec: TokenizerSpec, described: dict) -> TokenizerSpec:
        """The spec with every option decided: given, else stored next to the file or described in it, else ALBERT's."""
        given: dict[str, Any] = {
            name: getattr(spec, name) for name in ALBERT_OPTIONS if getattr(spec, name) is not None
        }
        stored: dict[str, Any] = {}
        if len(given) < len(ALBERT_OPTIONS) or spec.special_tokens is None:
            stored = stored_options(Path(spec.path), self.sha256, self._symbols)
        special = spec.special_tokens or complete_special_tokens(
            SPECIAL_PIECES, stored.get("special_tokens", ()), described.get("special_tokens", ())
        )
        known = {name: value for name, value in (stored | described).items() if name in ALBERT_OPTIONS}
        if not known and not given.keys() >= {"do_lower_case", "keep_accents"}:
            assumed = [name for name in ("do_lower_case", "keep_accents") if name not in given]
            note = (
                f"{spec.path} has no normalisation options next to it, so it is taken as an ALBERT vocabulary: "
                f"text {_describe(ALBERT_OPTIONS | given)}. "
                f"Where that is wrong, use {' or '.join(opt(name, not ALBERT_OPTIONS[name]) for name in assumed)}"
            )
            self.notes.append(str(Message(note)))
        options = ALBERT_OPTIONS | known | given
        if spec.special_tokens is None:
            from_files = {name: value for name, value in options.items() if name not in given}
            note = contradiction(Path(spec.path), self.kind, self._all_pieces, from_files)
            self.notes += [note] if note else []
        return replace(spec, kind=self.kind, sha256=self.sha256, special_tokens=special, **options)

    def _symbols(self) -> dict[str, int]:
        """The user-defined pieces, for which the model looks in text before it segments the rest, and their ids."""
        model = SentencePieceModel(self.serialized())
        kinds = enumerate(zip(model.pieces, model.types, strict=True))
        return {piece: i for i, (piece, kind) in kinds if kind == USER_DEFINED}

    def options(self) -> dict:
        return {name: getattr(self.spec, name) for name in ALBERT_OPTIONS}

    def normalize(self, lines: Sequence[str]) -> list[str]:
        return normalize_lines(
            lines, do_lower_case=bool(self.spec.do_lower_case), keep_accents=bool(self.spec.keep_accents)
        )

    def encode_normalized(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        ids, lengths = self._encode_plain(lines)
        return (ids, lengths) if self._split is None else self._split.apply(ids, lengths)

    def _encode_plain(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """What the model itself says, before digits and commas are split."""
        lines = lines if isinstance(lines, list) else list(lines)
        if not lines:
            return np.zeros(0, np.int32), np.zeros(0, np.int64)
        try:
            encoded = self._model.encode(lines, return_type="numpy", num_threads=1)
        except (TypeError, UnicodeError):  # no UTF-8 to hand over
            lines = [without_surrogates(line) for line in lines]
            encoded = self._model.encode(lines, return_type="numpy", num_threads=1)
        lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
        return np.concatenate(encoded), lengths

    def encode_normalized_with_offsets(
        self, lines: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """`encode_normalized`, and where each token begins and ends in its line: int64 (tokens,) each, in characters."""
        lines = [line if line.isascii() else without_surrogates(line) for line in lines]
        ids, lengths = self._encode_plain(lines)
        ends = np.cumsum(self._piece_sizes[ids])
        sums = np.append(0, ends)[np.append(0, np.cumsum(lengths))]
        ends -= np.repeat(sums[:-1] + 1, lengths)  # 1: the word mark in front of the line
        starts = np.maximum(ends - self._piece_sizes[ids], 0)
        # Sizes are places where the pieces spell the line out, a mark for each space. Those of an ASCII line do unless
        # one is unknown, and then the sizes do not add up; of others the model may have changed characters.
        stops = np.cumsum(lengths)
        odd = [
            i
            for i, (line, size) in enumerate(zip(lines, np.diff(sums).tolist(), strict=True))
            if line
            and (
                size != len(line) + 1
                or not (line.isascii() or self._spells(ids[stops[i] - lengths[i] : stops[i]], line))
            )
        ]
        if odd:
            ids, lengths, starts, ends = self._replace_odd(lines, odd, ids, lengths, starts, ends)
        if self._split is not None:
            ids, lengths, starts, ends = self._split.apply_with_offsets(ids, lengths, starts, ends, self._piece_sizes)
        return ids, lengths, starts, ends

    def _spells(self, ids: np.ndarray, line: str) -> bool:
        return "".join(self.pieces(ids)) == WORD_MARK + line.replace(" ", WORD_MARK)

    def _replace_odd(
        self,
        lines: Sequence[str],
        odd: Sequence[int],
        ids: np.ndarray,
        lengths: np.ndarray,
        starts: np.ndarray,
        ends: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The same columns, with the tokens of some lines as the model itself places them."""
        found = self._model.encode([lines[i] for i in odd], return_type="offset_mapping", num_threads=1)
        stops, lengths = np.cumsum(lengths), lengths.copy()
        parts: list[list[np.ndarray]] = [[], [], []]
        done = 0
        for i, mapping in zip(odd, found, strict=True):
            places = np.array(mapping["offsets"], np.int64).reshape(-1, 2)
            own = (np.array(mapping["ids"], np.int32), *places.T)
            for part, column, values in zip(parts, (ids, starts, ends), own, strict=True):
                part += [column[done : stops[i] - lengths[i]], values]
            done = stops[i]
            lengths[i] = len(places)
        ids, starts, ends = (
            np.concatenate([*part, column[done:]]) for part, column in zip(parts, (ids, starts, ends), strict=True)
        )
        return ids, lengths, starts, ends

    @cached_property
    def _piece_sizes(self) -> np.ndarray:
        """int64 (vocab_size,): characters of each piece, the word mark counted; 0 where the text does not show."""
        sizes = np.fromiter(map(len, self._all_pieces), np.int64, self.vocab_size)
        sizes[self.unk_id] = 0
        byte_like = [i for i, piece in enumerate(self._all_pieces) if piece.startswith("<0x")]
        sizes[[i for i in byte_like if self._model.is_byte(i)]] = 0
        return sizes

    def special_ids(self) -> list[int]:
        return sorted(self._special)

    def serialized(self) -> bytes:
        """The model, as a file of it holds it (sentencepiece_model.proto of google/sentencepiece)."""
        return self._model.serialized_model_proto()

    def split_pieces(self) -> dict[int, list[int]]:
        """What the digit-comma rule puts in the place of pieces: id -> ids."""
        return {} if self._split is None else self._split.replacements

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._all_pieces[i] for i in np.asarray(ids).tolist()]

    def decode(self, ids: Iterable[int]) -> str:
        return self._model.decode(np.asarray(ids).tolist())

    @cached_property
    def ordinary_ids(self) -> np.ndarray:
        """int32, ascending: neither unknown, control, unused nor a single byte of byte fallback."""
        model, special = self._model, self._special
        return np.array(
            [
                i
                for i in range(self.vocab_size)
                if i not in special
                and not (model.is_unknown(i) or model.is_control(i) or model.is_unused(i) or model.is_byte(i))
            ],
            dtype=np.int32,
        )

    @cached_property
    def word_start(self) -> np.ndarray:
        """bool (vocab_size,): see `nlpdata.tokenizers.scripts.begins_word`; control pieces are words."""
        model, special = self._model, self._special
        starts = np.zeros(self.vocab_size, dtype=bool)
        for i, piece in enumerate(self._all_pieces):
            if model.is_byte(i):
                starts[i] = byte_begins_word(int(piece[3:-1], 16))
            else:
                starts[i] = i in special or model.is_control(i) or begins_word(piece)
        return starts


def without_surrogates(line: str) -> str:
    """Lone surrogates, which JSON escapes can hold and UTF-8 cannot, become U+FFFD."""
    return SURROGATE.sub("\ufffd", line)


class _DigitCommaTable:
    """What each affected id becomes. `lengths` int64 (vocab,): how many ids (1: itself); `affected` bool (vocab,)."""

    def __init__(self, vocab_size: int, replacements: dict[int, list[int]]) -> None:
        self.replacements = replacements
        self.affected = np.zeros(vocab_size, dtype=bool)
        self.affected[list(replacements)] = True
        self.lengths = np.ones(vocab_size, dtype=np.int64)
        self.starts = np.zeros(vocab_size, dtype=np.int64)
        flat: list[int] = []
        for i, ids in replacements.items():
            self.lengths[i] = len(ids)
            self.starts[i] = len(flat)
            flat.extend(ids)
        self.flat = np.array(flat, dtype=np.int32)

    def apply(self, ids: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        hits = np.flatnonzero(self.affected[ids])
        return self._replace(ids, lengths, hits)[:2] if hits.size else (ids, lengths)

    def _replace(
        self, ids: np.ndarray, lengths: np.ndarray, hits: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(new ids, new lengths, number of new ids of each old one int64, places of the replacements' ids int64)."""
        grown = self.lengths[ids]
        ends = np.cumsum(grown)
        out = np.repeat(ids, grown)
        counts = grown[hits]
        # Position of each replacement id within its own replacement.
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        at = np.repeat(ends[hits] - counts, counts) + within
        out[at] = self.flat[np.repeat(self.starts[ids[hits]], counts) + within]
        line_of_hit = np.repeat(np.arange(lengths.size), lengths)[hits]
        more = np.bincount(line_of_hit, weights=counts - 1, minlength=lengths.size).astype(np.int64)
        return out, lengths + more, grown, at

    def apply_with_offsets(
        self, ids: np.ndarray, lengths: np.ndarray, starts: np.ndarray, ends: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """`apply`, and the same for where the tokens are; `sizes` int64 (vocab,): characters of a piece."""
        hits = np.flatnonzero(self.affected[ids])
        if not hits.size:
            return ids, lengths, starts, ends
        new_ids, new_lengths, grown, at = self._replace(ids, lengths, hits)
        new_starts, new_ends = np.repeat(starts, grown), np.repeat(ends, grown)
        parts, low = sizes[new_ids[at]], new_starts[at]
        # Characters from the end of the old piece: what the parts behind this one have.
        upto, counts = np.cumsum(parts), grown[hits]
        behind = np.repeat(upto[np.cumsum(counts) - 1], counts) - upto
        new_ends[at] = np.maximum(new_ends[at] - behind, low)
        new_starts[at] = np.where(np.repeat(counts > 1, counts), np.maximum(new_ends[at] - parts, low), low)
        return new_ids, new_lengths, new_starts, new_ends


def _digit_comma_table(model: Any, pieces: list[str]) -> _DigitCommaTable | None:
    replacements = {}
    for i, piece in enumerate(pieces):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            parts = model.encode(piece[:-1].replace(WORD_MARK, ""), return_type=str)
            if piece[0] != WORD_MARK and parts[0][0] == WORD_MARK:
                parts = [parts[0][1:], *parts[1:]] if len(parts[0]) > 1 else parts[1:]
            replacements[i] = model.piece_to_id([*parts, ","])
    return _DigitCommaTable(len(pieces), replacements) if replacements else None


def _parse(path: Path, content: bytes) -> tuple[Any, list[str]]:
    """The loaded processor, and its pieces; UsageError for a .vocab, DataError for anything else but a whole model."""
    refuse_sentencepiece_vocab(path, content[:65536])
    if not content:
        raise DataError(f"{path} is empty, expected a SentencePiece model")
    model = sentencepiece.SentencePieceProcessor()
    try:
        model.LoadFromSerializedProto(content)
        pieces = model.id_to_piece(list(range(model.get_piece_size())))
        whole = len(pieces) > 0 and _has_normalizer(content)
    except (RuntimeError, UnicodeDecodeError):
        whole = False
    if not whole:
        raise DataError(
            f"{path} ({len(content)} bytes) is not a SentencePiece model, or it is cut short: copy it again, or train "
            "one with nlpdata train-tokenizer"
        )
    return model, pieces


def _has_normalizer(content: bytes) -> bool:
    """True if field 3 of the model message (normalizer_spec) is there: it comes last, and a model that was cut
    exactly between two of its pieces is still a valid message."""
    position, fields = 0, set()
    while content[position : position + 1] == b"\n" and b"\0" <= content[position + 1 : position + 2] < b"\x80":
        position += 2 + content[position + 1]  # a short piece (field 1): nearly all of the file, so without calls
    while position < len(content):
        tag, position = read_varint(content, position)
        fields.add(tag >> 3)
        if tag & 7 != 2:  # the message has only fields with a length
            return True  # not of a form that we know: the parser has accepted it, leave it at that
        length, position = read_varint(content, position)
        position += length
    return 3 in fields


def _describe(options: dict) -> str:
    case = "lower-cased" if options["do_lower_case"] else "not lower-cased"
    accents = "accents kept" if options["keep_accents"] else "accents stripped"
    comma = "digit-comma pieces split" if options["digit_comma"] else "digit-comma pieces left whole"
    return f"{case}, {accents}, {comma}"
