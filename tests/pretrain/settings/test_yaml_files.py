"""Configuration files, and the configuration that a model_dir keeps."""

import pytest

from nlpdata.errors import DataError, UsageError
from pretrain.registry import EXPERIMENTS
from pretrain.settings.tree import with_layers
from pretrain.settings.yaml_files import compare_saved, dump_yaml, read_yaml, save
from tests.pretrain.settings.test_tree import experiment


def written(tmp_path, text, name="a.yaml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_scalars_stay_text_and_null_is_null(tmp_path):
    path = written(tmp_path, "a: off\nb: 010\nc: 1e-4\nd: null\ne: 'null'\nf: ~\ng:\nh: [1, {x: yes}]\ni: 2001-01-01\n")
    assert read_yaml(path) == {
        **{"a": "off", "b": "010", "c": "1e-4", "d": None, "e": "null", "f": None, "g": None},
        **{"h": ["1", {"x": "yes"}], "i": "2001-01-01"},
    }


def test_json_and_anchors_are_read(tmp_path):
    assert read_yaml(written(tmp_path, '{"a": {"b": 1}}')) == {"a": {"b": "1"}}
    assert read_yaml(written(tmp_path, "x: &x {a: 1, b: 2}\ny:\n  <<: *x\n  b: 3\n"))["y"] == {"a": "1", "b": "3"}
    assert read_yaml(written(tmp_path, "# nothing\n")) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [1,\n", "a.yaml:3: is not valid YAML"),
        ("a: 1\nb: 2\na: 3\n", "a.yaml:3: is not valid YAML: 'a' twice"),
        ("- 1\n- 2\n", "expected sections such as `trainer:`"),
        ('a: !!int ""\n', "is not valid YAML: a tag, such as !!int, has a value of another kind"),
        ("- &a0 [x]\n" + "".join(f"- &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 12)), "Received: a list"),
        ("just words", "expected sections such as `trainer:`"),
        ("a: !!python/object:os.system {}\n", "a.yaml:1: is not valid YAML"),
        ("[" * 20_000, "is not valid YAML: it is nested too deeply"),
        ("? [a, b]\n: 1\n", "a.yaml:1: is not valid YAML: a name must be text"),
    ],
)
def test_faults_have_file_and_line(tmp_path, text, message):
    with pytest.raises(UsageError) as caught:
        read_yaml(written(tmp_path, text))
    assert message in str(caught.value)


def test_missing_and_binary_files(tmp_path):
    with pytest.raises(UsageError, match="there is no configuration file"):
        read_yaml(tmp_path / "none.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"b\.yaml is not UTF-8 text \(byte 0\)"):
        read_yaml(tmp_path / "b.yaml")
    (tmp_path / "corpus.txt").write_bytes(b"word " * 150_000)
    with pytest.raises(
        UsageError, match=r"corpus\.txt cannot be read: it has more than 524,288 bytes, .* another file\?$"
    ):
        read_yaml(tmp_path / "corpus.txt")
    with pytest.raises(UsageError, match="configuration file '' has no name"):
        read_yaml("")
    with pytest.raises(UsageError, match="cannot be read"):
        read_yaml(tmp_path)


def test_a_fault_in_a_field_has_file_line_and_path(tmp_path):
    path = written(tmp_path, "trainer:\n  max_to_keep: 3\n  train_stps: 10\n")
    with pytest.raises(UsageError) as caught:
        with_layers(experiment(), [(str(path), read_yaml(path))])
    assert f"{path}:3: trainer.train_stps: TrainerConfig has no such field. Did you mean train_steps" in str(
        caught.value
    )
    path = written(tmp_path, "task:\n  model:\n    encoder:\n      type: small\n      hiden_size: 10\n")
    with pytest.raises(UsageError, match=r"a\.yaml:5: task\.model\.encoder\.hiden_size"):
        with_layers(experiment(), [(str(path), read_yaml(path))])


@pytest.mark.parametrize("name", EXPERIMENTS.names())
def test_every_experiment_survives_its_yaml(name, tmp_path):
    config = EXPERIMENTS.get(name)()
    text = dump_yaml(config)
    assert dump_yaml(EXPERIMENTS.get(name)()) == text
    other = EXPERIMENTS.get("bert/local" if name != "bert/local" else "albert/pretraining")()
    assert with_layers(other, [("file", read_yaml(written(tmp_path, text)))]) == config


def test_save_and_compare(tmp_path):
    config = experiment()
    assert compare_saved(config, tmp_path / "run") == []
    path = save(config, tmp_path / "run")
    assert path.name == "params.yaml"
    assert [each.name for each in path.parent.iterdir()] == ["params.yaml"]
    assert compare_saved(config, tmp_path / "run") == []
    changed = with_layers(config, [("x", {"trainer": {"train_steps": 3}, "task": {"model": {"encoder": "large"}}})])
    lines = compare_saved(changed, tmp_path / "run")
    assert "trainer.train_steps: null -> 3" in lines
    assert "task.model.encoder.type: 'small' -> 'large'" in lines


def test_a_saved_file_of_another_version_is_said(tmp_path):
    (tmp_path / "params.yaml").write_text("trainer: {no_such_field: 1}\n")
    assert "does not fit" in compare_saved(experiment(), tmp_path)[0]


def test_saving_where_it_cannot_be_is_a_data_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write"):
        save(experiment(), tmp_path / "file" / "run")
