"""What --output names: one set, or record files one by one with commas between them."""

import pytest

from nlpdata.errors import UsageError
from nlpdata.files.json_files import write_json
from nlpdata.output import refuse_output
from nlpdata.output.naming import SHARD_BYTES, is_own, output_set, set_files, text_set


@pytest.mark.parametrize("output", ["q,v/train.tfrecord", "a[1], b/c,d/x.tf_record", "s*/x.tfrecord", "a,b/c.tfrecord"])
def test_a_comma_in_the_name_of_a_folder_divides_nothing(output):
    target = output_set(output)
    assert (target.output, target.names) == (output, ())
    assert target.folder.name == output.split("/")[-2]


def test_names_with_commas_between_them(tmp_path):
    assert output_set("a.tfrecord,b.tfrecord").names == ("a.tfrecord", "b.tfrecord")
    assert output_set("out/a.tf_record, out/b.tf_record").names == ("a.tf_record", "b.tf_record")
    with pytest.raises(UsageError, match="the files of a set are in one folder"):
        output_set("x/a.tfrecord,y/b.tfrecord")
    folder = tmp_path / "x.tfrecord,y"  # a folder of the very name
    folder.mkdir()
    assert output_set(f"{folder}/b.tfrecord").folder == folder


def test_a_set_of_text(tmp_path):
    target = text_set(str(tmp_path / "a.b.txt"))
    assert (target.stem, target.meta.name) == ("a.b.txt", "a.b.sentences.json")
    assert [marker.name for marker in target.markers] == [".a.b.txt.committing"]
    records = output_set(str(tmp_path / "a.b.tfrecord"))  # next to it, with a marker and a work folder of their own
    assert (records.stem, [marker.name for marker in records.markers]) == ("a.b", [".a.b.committing"])
    assert target.shards(100) == ["a.b.txt"]
    assert target.shards(SHARD_BYTES + 1) == target.shards(1, 2) == ["a.b.txt-00000-of-00002", "a.b.txt-00001-of-00002"]
    own, others = (
        ("a.b.txt", "a.b.txt-00003-of-00009"),
        ("a.txt", "a.b.text", "a.b.txt.gz", "a.b.txt-1-of-2", "a.b.tfrecord"),
    )
    for name in (*own, *others):
        (tmp_path / name).touch()
        assert is_own(target, name) == (name in own)
    assert [path.name for path in set_files(target)] == list(own)


@pytest.mark.parametrize("output", ["", "out/", "x", "x.tfrecord", "x.txt.gz", ".txt", "a*.txt", "a,b.txt"])
def test_what_is_not_a_name_of_text(output):
    with pytest.raises(UsageError, match="output names a text file"):
        text_set(output)


@pytest.mark.parametrize("output", ["x/t.tfrecord.gz", "x/a.tfrecord,x/b.tfrecord.zst"])
def test_records_are_not_compressed_by_their_name(output):
    with pytest.raises(UsageError, match=r"Expected: 'x/[tb]\.tfrecord' and, if wanted, compression='gzip'\."):
        output_set(output)


def test_text_whose_json_file_lists_text_of_another_name(tmp_path):
    (tmp_path / "x.txt").write_text("One.\n")
    shard = {"file": "x.txt", "records": 1, "bytes": 5, "crc32c": "00000000"}
    write_json(tmp_path / "x.sentences.json", {"task_type": "split_sentences", "shards": [shard]})
    refuse_output([text_set(str(tmp_path / "x.txt"))], overwrite=True)
    with pytest.raises(
        UsageError, match=r"x\.sentences\.json lists x\.txt too, which would stay behind.*use another output\."
    ):
        refuse_output([text_set(str(tmp_path / "x.text"))], overwrite=True)
