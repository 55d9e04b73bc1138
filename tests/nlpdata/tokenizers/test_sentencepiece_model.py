"""What a serialized model says, against SentencePiece itself."""

import re

import sentencepiece

from nlpdata.tokenizers.sentencepiece_model import SentencePieceModel
from tests.nlpdata.tokenizers.test_sentencepiece import train


def test_pieces_and_scores(tmp_path):
    path = train(tmp_path / "m.model", user_defined_symbols=["(", "né"])
    model, processor = (
        SentencePieceModel(path.read_bytes()),
        sentencepiece.SentencePieceProcessor(model_file=str(path)),
    )
    ids = range(processor.get_piece_size())
    assert model.pieces == processor.id_to_piece(list(ids))
    assert model.scores == [processor.get_score(i) for i in ids]
    assert [kind == 2 for kind in model.types] == [processor.is_unknown(i) for i in ids]
    assert [kind == 3 for kind in model.types] == [processor.is_control(i) for i in ids]
    assert {model.pieces[i] for i in ids if model.types[i] == 4} == {"(", "né"}
    assert (model.has_usual_spaces, model.byte_fallback) == (True, False)


def test_replacements(tmp_path):
    """All 200,000 of SentencePiece's default, nmt_nfkc."""
    content = train(tmp_path / "m.model", user_defined_symbols=[]).read_bytes()
    normalizer = sentencepiece.SentencePieceNormalizer(model_proto=content)
    replacements = SentencePieceModel(content).replacements
    assert (len(replacements) > 200_000, replacements["\u1112\u1161\u11ab"], replacements["ﬁ"]) == (True, "한", "fi")
    keys = list(replacements)
    # Between characters that combine with nothing.
    found = [normalizer.Normalize(f"\ue000{key}\ue000").removeprefix("\u2581") for key in keys]
    expected = [re.sub(" +", "\u2581", f"\ue000{replacements[key]}\ue000") for key in keys]
    assert [key for key, a, b in zip(keys, found, expected, strict=True) if a != b] == []


def test_other_treatment_of_spaces_and_bytes(tmp_path):
    suffix = train(tmp_path / "a.model", user_defined_symbols=[], treat_whitespace_as_suffix=True)
    assert not SentencePieceModel(suffix.read_bytes()).has_usual_spaces
    by_bytes = train(tmp_path / "b.model", user_defined_symbols=[], byte_fallback=True, vocab_size=600)
    assert SentencePieceModel(by_bytes.read_bytes()).byte_fallback
    plain = train(tmp_path / "c.model", user_defined_symbols=[], normalization_rule_name="identity")
    assert SentencePieceModel(plain.read_bytes()).replacements == {}
