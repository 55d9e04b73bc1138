"""The names of weights in every format, and how a row turns their array into ours."""

from pathlib import Path

import numpy as np
import pytest

from pretrain.encoders.published import published_forms
from pretrain.encoders.weight_names import Row, expand

GOLDEN = Path(__file__).parents[1] / "golden" / "names.txt"
TABLES = {"TF1": "tf1", "HUGGING_FACE": "hf", "KAMALKRAJ": "h5", "GARDEN": "tf2"}
TIED = {"TIED_HUGGING_FACE": "hf", "TIED_KAMALKRAJ": "h5"}


def tables(format):
    return {family: form.names[format] for family, form in published_forms().items() if format in form.names}


def lines() -> list[str]:
    """The tables as text: table, family, their name, our path, kind."""
    found = [
        f"{table} {family} {row.theirs} {row.ours} {row.kind}"
        for table, format in TABLES.items()
        for family, names in tables(format).items()
        for row in names.rows
    ]
    found += [
        f"{table} {family} {name} {ours} tied"
        for table, format in TIED.items()
        for family, names in tables(format).items()
        for name, ours in names.tied.items()
    ]
    return found


def test_published_names_do_not_change():
    """What others have written stays readable: a line that goes, or another name, is a decision."""
    assert lines() == GOLDEN.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("format", TABLES.values())
def test_no_name_and_no_path_is_there_twice(format):
    for family, names in tables(format).items():
        rows = names.rows
        assert len({row.theirs for row in rows}) == len({row.ours for row in rows}) == len(rows), family


def test_layouts_by_hand():
    ours = np.arange(24).reshape(4, 6)  # (in, out), two heads of 3
    for kind, theirs in (
        ("same", ours),
        ("transposed", [[ours[i, o] for i in range(4)] for o in range(6)]),
        ("heads_out", [[[ours[i, 3 * h + s] for s in range(3)] for h in range(2)] for i in range(4)]),
        ("heads_in", [[[ours[2 * h + s, o] for o in range(6)] for s in range(2)] for h in range(2)]),
    ):
        row = Row("a", "b", kind)
        np.testing.assert_array_equal(row.to_theirs(ours, 2), theirs)
        np.testing.assert_array_equal(row.to_ours(np.array(theirs)), ours)
        assert row.least_dimensions <= np.ndim(theirs)
    bias = np.arange(6)
    np.testing.assert_array_equal(Row("a", "b", "heads_out").to_theirs(bias, 2), [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(Row("a", "b", "heads_out").to_ours(bias.reshape(2, 3)), bias)
    assert [Row("a", "b", kind).least_dimensions for kind in ("same", "transposed", "heads_out", "heads_in")] == [
        0,
        2,
        2,
        3,
    ]


def test_placeholders_are_filled_in_every_combination():
    table = [Row("x", "y"), Row("g{g}/l{j}", "{g}.{j}", "transposed"), Row("layer_{i}", "{i}")]
    found = [(row.ours, row.theirs, row.kind) for row in expand(table, {"i": 1, "g": 2, "j": 2})]
    assert found == [
        ("x", "y", "same"),
        ("g0/l0", "0.0", "transposed"),
        ("g0/l1", "0.1", "transposed"),
        ("g1/l0", "1.0", "transposed"),
        ("g1/l1", "1.1", "transposed"),
        ("layer_0", "0", "same"),
    ]
