"""What --output names: one set, or record files one by one with commas between them."""

import pytest

from nlpdata.errors import UsageError
from nlpdata.output.naming import output_set


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
