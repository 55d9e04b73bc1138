"""Paths, patterns and lists of them: what exists under the very name wins, and nothing that exists is cut apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlpdata.files.patterns import each_named, find_paths


def finder(*names):
    return lambda text: [text] if text in names else []


@pytest.mark.parametrize(
    ("text", "names", "parts"),
    [
        ("a", "a", ["a"]),
        ("a,b", "a b", ["a", "b"]),
        ("a,b", "a b a,b", ["a,b"]),
        ("a,b,c", "a,b c", ["a,b", "c"]),
        ("a,b,c", "a b,c", ["a", "b,c"]),
        ("a,b,c", "a b a,b c", ["a", "b", "c"]),  # as short as it can be
        ("q,v/x,q,v/y", "q q,v/x q,v/y", ["q,v/x", "q,v/y"]),  # q alone leaves v/x, which is nothing
        (" a , b,", "a b", [" a ", " b"]),
        (",,a", "a", ["a"]),
    ],
)
def test_lists(text, names, parts):
    names = names.split()
    found = each_named(text, finder(*names))
    assert [part for part, _ in found] == parts
    assert [each for _, each in found] == [[part.strip() if part.strip() in names else part] for part in parts]


@pytest.mark.parametrize(
    ("text", "names", "failed"), [("x", "a", "x"), ("a,x", "a", "x"), ("a,x,b", "a b", "x"), ("x,a,y", "a", "x")]
)
def test_a_part_that_is_nothing(text, names, failed):
    assert each_named(text, finder(*names.split())) == [(failed, [])]


NAMES_WITH_COMMAS = st.lists(st.text("ab", min_size=1, max_size=2), min_size=1, max_size=3).map(",".join)


@given(st.lists(NAMES_WITH_COMMAS, min_size=1, max_size=6))
def test_every_list_of_names_is_found(names):
    """All that is found exists, and together it is the text."""
    found = each_named(",".join(names), finder(*names))
    assert all(matches == [part] and part in names for part, matches in found)
    assert ",".join(part for part, _ in found) == ",".join(names)


def test_a_long_list_with_a_fault_at_its_end_is_refused_at_once():
    calls = []
    names = {f"n{i}" for i in range(3000)}
    find = lambda text: calls.append(text) or ([text] if text in names else [])  # noqa: E731
    assert each_named(",".join([*sorted(names), "x"]), find) == [("x", [])]
    assert len(calls) < 60_000


def test_many_ways_to_divide_a_list_with_a_fault_are_not_all_tried():
    names = {",".join(["a"] * count) for count in range(1, 9)}
    assert each_named(",".join(["a"] * 60 + ["x"]), finder(*names)) == [("x", [])]


@pytest.mark.parametrize("folder", ["s[1]", "q,v", "b*", "what?", "[ab", "x[!a]y/[0-9]"])
def test_folders_of_the_very_name_are_no_patterns(folder, tmp_path):
    for place in (folder, "s1", "bb", "what1", "xby/5"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / "train-1.txt").write_text("")
        (tmp_path / place / "train-[1].txt").write_text("")
    start = f"{tmp_path}/{folder}"
    assert find_paths(f"{start}/train*") == [f"{start}/train-1.txt", f"{start}/train-[1].txt"]
    assert find_paths(f"{start}/train-[0-9].txt") == [f"{start}/train-1.txt"]
    assert find_paths(f"{start}/train-[1].txt") == [f"{start}/train-[1].txt"]  # so is a file
    assert find_paths(f"{start}/**/*-1.txt") == [f"{start}/train-1.txt"]
    assert find_paths(f"{tmp_path}/s[1-9]/train-1*") == [f"{tmp_path}/s1/train-1.txt"]  # no folder of that name


def test_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).touch()
    files = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]
    assert find_paths("~/*.txt") == files
    assert [found for _, found in each_named("~/a.txt,~/b.txt", find_paths)] == [[file] for file in files]
