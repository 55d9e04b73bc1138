"""Which test files `make check` runs."""

from pathlib import Path

import pytest

from tests.light import needs_heavy

TESTS = Path(__file__).parent


@pytest.mark.parametrize(
    ("file", "heavy"),
    [
        ("nlpdata/test_keys.py", False),
        ("pretrain/settings/test_values.py", False),  # the package imports Keras for type checkers alone
        ("pretrain/evaluation/test_squad.py", False),
        ("pretrain/layers/test_activations.py", True),
        ("pretrain/encoders/test_encoders.py", True),
        ("pipelines/test_counters.py", True),
    ],
)
def test_a_file_is_heavy_by_what_it_loads(file, heavy):
    assert needs_heavy(TESTS / file) == heavy
