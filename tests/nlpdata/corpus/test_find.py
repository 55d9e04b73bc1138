"""Input patterns: what they match, in which order, and what is reported where they do not."""

import gzip
import logging
import os
import re

import pytest

from nlpdata.corpus import find_files
from nlpdata.errors import DataError, UsageError
from nlpdata.keys import hash_bytes


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A current directory with a few files."""
    monkeypatch.chdir(tmp_path)
    names = ["a.txt", "b.txt", "c,d.txt", "e@2", "My Drive/x.txt", "deep/er/f.txt", ".hidden.txt", "b.txt.d/g.md"]
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {name}\n")
    return tmp_path


def paths(*patterns):
    return [file.path for file in find_files(patterns)[0]]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["*.txt"], ["a.txt", "b.txt", "c,d.txt"]),
        (["./*.txt"], ["./a.txt", "./b.txt", "./c,d.txt"]),
        (["b.txt", "a.txt"], ["a.txt", "b.txt"]),
        (["a.txt,b.txt"], ["a.txt", "b.txt"]),
        (["a.txt, b.txt,"], ["a.txt", "b.txt"]),
        (["b.t*,a*"], ["a.txt", "b.txt"]),
        (["c,d.txt"], ["c,d.txt"]),
        (["a.txt,c,d.txt"], ["a.txt", "c,d.txt"]),
        (["c,d.txt@3"], ["c,d.txt"]),
        (["e@2"], ["e@2"]),
        (["My Drive/x.txt"], ["My Drive/x.txt"]),
        (["My*/*.txt"], ["My Drive/x.txt"]),
        (["**/*.txt"], ["My Drive/x.txt", "a.txt", "b.txt", "c,d.txt", "deep/er/f.txt"]),
        (["b.*"], ["b.txt"]),
    ],
)
def test_patterns(here, patterns, expected):
    assert paths(*patterns) == expected
    assert find_files(patterns)[1] == []


def test_a_list_of_files_equals_their_glob(here):
    assert find_files(["a.txt,b.txt"]) == find_files(["[ab].txt"]) == find_files("[ab].txt")


def test_existing_path_wins_over_glob_characters(here):
    (here / "a[1].txt").write_text("x")
    assert paths("a[1].txt") == ["a[1].txt"]


def test_home(here, monkeypatch):
    monkeypatch.setenv("HOME", str(here))
    assert paths("~/a.txt,~/b.*") == [str(here / "a.txt"), str(here / "b.txt")]


def test_weights(here):
    files, _ = find_files(["*.txt@2", "e@2", "deep/er/f.txt@0.5"])
    assert [(file.path, file.weight) for file in files] == [
        ("a.txt", 2.0),
        ("b.txt", 2.0),
        ("c,d.txt", 2.0),
        ("deep/er/f.txt", 0.5),
        ("e@2", 1.0),
    ]
    assert [file.weight for file in find_files(["a.txt@2,b.txt"])[0]] == [2.0, 1.0]
    assert [(file.path, file.weight) for file in find_files(["e@2@3"])[0]] == [("e@2", 3.0)]


@pytest.mark.parametrize("weight", ["0", "-1", "nan", "inf", "two", "", "1e9", "1000.5"])
def test_weight_must_be_positive(here, weight):
    with pytest.raises(UsageError, match="expected a number above 0"):
        find_files([f"a.txt@{weight}"])


def test_fields(here):
    (file,) = find_files(["a.txt"])[0]
    assert (file.name, file.size, file.compression) == ("a.txt", len("text of a.txt\n"), "none")
    assert file.file_id == hash_bytes(b"a.txt\x000")


def test_file_ids(here):
    for folder, data in (("n1", b"one\n"), ("n2", gzip.compress(b"two\n"))):
        (here / folder).mkdir()
        (here / folder / ("z.txt" if folder == "n1" else "z.txt.gz")).write_bytes(data)
    files, _ = find_files(["n2/*", "./n1/z.txt", "a.txt"])
    assert [file.path for file in files] == ["a.txt", "./n1/z.txt", "n2/z.txt.gz"]
    assert [file.name for file in files] == ["a.txt", "z.txt", "z.txt"]
    assert [file.compression for file in files] == ["none", "none", "gzip"]
    assert [file.file_id for file in files[1:]] == [hash_bytes(b"z.txt\x000"), hash_bytes(b"z.txt\x001")]


def test_compression_is_told_by_content(here):
    (here / "plain.gz").write_text("not compressed\n")
    (here / "packed").write_bytes(gzip.compress(b"compressed\n"))
    (here / "empty.gz").write_bytes(b"")
    files, _ = find_files(["plain.gz", "packed", "empty.gz"])
    assert {file.path: file.compression for file in files} == {"plain.gz": "none", "packed": "gzip", "empty.gz": "none"}


# Repetitions


def test_same_file_twice_is_read_once_with_a_warning(here):
    os.symlink("a.txt", here / "link.txt")
    files, warnings = find_files(["a.txt", "./a.txt", "link.txt", "a*"])
    assert [file.path for file in files] == ["a.txt"]
    assert len(warnings) == 1
    assert warnings[0].startswith("given more than once, read once: a.txt")


def test_same_file_with_two_weights(here):
    with pytest.raises(UsageError, match=r"a\.txt.* is given with the weights 1 and 2"):
        find_files(["*.txt", "./a.txt@2"])


# Errors


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (["a.tx"], r"'a\.tx' matches no file; the current directory is .*\. Did you mean a\.txt"),
        (["*.csv"], r"'\*\.csv' matches no file; the current directory is .*; it holds .*\*\.txt"),
        (["*.txt,nothing*"], r"'nothing\*' matches no file"),
        (["a.txt", "nothing.txt"], r"'nothing\.txt' matches no file"),
        (["nowhere/a.txt"], "there is no directory 'nowhere'"),
        (["My", "Drive/x.txt"], r"did you mean the one path 'My Drive/x\.txt'"),
        (["{a,b}.txt"], "matches no file"),
        (["ftp://host/a.txt"], "expected a path of this machine, or one of gs://"),
        ([""], "expected a file or a pattern"),
        ([" , "], "expected a file or a pattern"),
        ([], "no file or pattern was given"),
        (
            ["b.txt.d@2"],
            r"b\.txt\.d holds no \*\.txt or \*\.text: it holds 1 \*\.md; give a pattern, such as 'b\.txt\.d/\*\*/\*\.md'",
        ),
        (["/dev/null"], "not a regular file"),
    ],
)
def test_errors(here, patterns, message):
    with pytest.raises(UsageError, match=message):
        find_files(patterns)


def test_no_match_names_the_current_directory(here):
    with pytest.raises(UsageError, match=re.escape(os.getcwd())):
        find_files(["*.csv"])


def test_empty_directory(here):
    (here / "empty").mkdir()
    with pytest.raises(UsageError, match="it is empty"):
        find_files(["empty"])


# Folders


@pytest.fixture
def tree(here):
    """A folder of text files, others and hidden ones; what the pattern **/*.txt* leaves to be wanted."""
    names = [
        "b.txt",
        "a.TXT",
        "n/c.text",
        "n/m/d.txt.gz",
        "e.jsonl",
        "README.md",
        "wiki_00",
        "n/.hidden.txt",
        ".git/f.txt",
    ]
    for name in names:
        (here / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        data = f"text of {name}\n".encode()
        (here / "tree" / name).write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    return here / "tree"


@pytest.mark.parametrize("folder", ["tree", "tree/", "./tree", "*ree", "tree,a.txt"])
def test_a_folder_stands_for_its_text_files(tree, folder, caplog):
    with caplog.at_level(logging.INFO):
        files, warnings = find_files([folder])
    names = sorted(["b.txt", "a.TXT", "n/c.text", "n/m/d.txt.gz"])
    taken = [os.path.relpath(file.path, tree) for file in files if file.path != "a.txt"]
    assert (sorted(taken), warnings) == (names, [])
    assert ": 1 *.TXT, 1 *.txt, 1 *.text, 1 *.txt.gz: a.TXT, b.txt, n/c.text, n/m/d.txt.gz; left out: " in caplog.text
    assert all(kind in caplog.text for kind in ("1 *.jsonl", "1 *.md", "1 *\n"[:3]))


def test_a_folder_gives_what_the_pattern_of_its_files_gives(tree):
    (tree / "a.TXT").unlink()
    (tree / "n" / "c.text").unlink()
    by_folder, _ = find_files([str(tree)])
    by_pattern, _ = find_files([f"{tree}/**/*.txt*"])
    assert by_folder == by_pattern
    assert [file.weight for file in find_files([f"{tree}@2"])[0]] == [2, 2]


def test_a_folder_of_json_lines(tree):
    files, _ = find_files([str(tree)], json_lines=True)
    assert [file.path for file in files] == [f"{tree}/e.jsonl"]
    for name in ("b.txt", "a.TXT", "n/c.text", "n/m/d.txt.gz"):
        (tree / name).unlink()
    with pytest.raises(
        UsageError, match=r"holds no \*.txt or \*.text: .* For JSON lines name the key of the text: text_key='text'"
    ):
        find_files([str(tree)])


def test_links_in_a_folder_that_lead_to_it(tree):
    os.symlink(tree, tree / "n" / "again")
    os.symlink("b.txt", tree / "link.txt")
    files, warnings = find_files([str(tree)])
    assert [file.name for file in files] == ["a.TXT", "b.txt", "c.text", "d.txt"]
    assert len(warnings) == 1  # link.txt is b.txt


# Names that look like patterns or lists


@pytest.mark.parametrize("folder", ["s[1]", "q,v/run", "b*st", "what?", "a@2", "{a,b}"])
def test_folders_whose_names_look_like_patterns(here, folder):
    for name in ("x.txt", "y.txt"):
        (here / folder).mkdir(parents=True, exist_ok=True)
        (here / folder / name).write_text("text\n")
    for other in ("s1", "q", "best", "what1", "a", "b"):  # what the patterns would match
        (here / other).mkdir(exist_ok=True)
        (here / other / "z.txt").write_text("text\n")
    expected = [f"{folder}/x.txt", f"{folder}/y.txt"]
    for given in (
        f"{folder}/*.txt",
        f"{folder}/[xy].txt",
        f"{folder}/x.txt,{folder}/y.txt",
        folder,
        f"{folder}@2",
        f"{folder}/*.txt@3",
    ):
        assert [file.path for file in find_files([given])[0]] == expected, given


def test_broken_link(here):
    os.symlink("gone.txt", here / "broken.txt")
    with pytest.raises(DataError, match=r"broken\.txt: cannot be read"):
        find_files(["*.txt"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(here):
    (here / "a.txt").chmod(0)
    with pytest.raises(DataError, match=r"a\.txt: cannot be read: Permission denied"):
        find_files(["a.txt"])


def test_a_set_of_text_that_is_being_replaced_and_text_next_to_such_records(tmp_path):
    text = tmp_path / "x.txt"
    text.write_text("One.\n")
    (tmp_path / ".x.committing").touch()  # of x.tfrecord, which the same command over this text completes
    assert [file.path for file in find_files(str(text))[0]] == [str(text)]
    (tmp_path / ".x.txt.committing").touch()
    with pytest.raises(DataError, match=r"x\.txt: this set of text is being replaced"):
        find_files(str(text))
