"""Checkpoints: all or nothing, keep N, damaged ones skipped, the best by a metric; and reading them as weights."""

import json
import os
import shutil

import numpy as np
import pytest

from nlpdata.errors import DataError, NlpdataError, UsageError
from nlpdata.files.temporary import temporary
from pretrain.converters import Checkpoint, assign, native, read_checkpoint, read_encoder
from pretrain.converters.write import write_checkpoint
from pretrain.training.checkpoints.manager import BestCheckpoint, Checkpoints
from tests.disks import files_up_to
from tests.messages import messages
from tests.nlpdata.files.test_temporary import another_process
from tests.nlpdata.interruptions import run_failing, run_killed
from tests.pretrain.runs import tiny


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    return {"model/encoder/kernel": rng.random((5, 4), np.float32), "optimizer/iterations": np.array(seed)}


@pytest.fixture
def said():
    with messages() as lines:
        yield lines


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path, 3)


def test_what_is_written_is_read(checkpoints):
    folder = checkpoints.save(7, arrays(7), {"seed": 5, "interval": [{"a": 0.1 + 0.2}]})
    assert folder.name == "step-00000007"
    found, info, values = checkpoints.newest()
    assert found == folder
    assert info["step"] == 7
    assert info["seed"] == 5
    assert info["interval"] == [{"a": 0.1 + 0.2}]  # floats to the last bit
    assert values.keys() == arrays().keys()
    for name, value in arrays(7).items():
        np.testing.assert_array_equal(values[name], value)
        assert values[name].dtype == value.dtype


def test_equal_states_are_equal_bytes(tmp_path):
    native.write(tmp_path / "a", arrays(), {"step": 1})
    native.write(tmp_path / "b", arrays(), {"step": 1})
    for name in (native.ARRAYS, native.INFO):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_the_newest_n_are_kept(checkpoints):
    for step in (2, 4, 100, 6):
        checkpoints.save(step, arrays(step), {})
    assert [folder.name for folder in native.finished(checkpoints.folder)] == [
        "step-00000004", "step-00000006", "step-00000100",
    ]  # fmt: skip


@pytest.mark.parametrize("damage", ["cut", "flip", "no arrays", "no info", "half info", "empty"])
def test_a_damaged_newest_is_skipped_with_a_message(checkpoints, caplog, damage):
    checkpoints.save(1, arrays(1), {})
    folder = checkpoints.save(2, arrays(2), {})
    state, info = folder / native.ARRAYS, folder / native.INFO
    data = bytearray(state.read_bytes())
    if damage == "cut":
        state.write_bytes(data[:-100])
    elif damage == "flip":
        data[data.index(arrays(2)["model/encoder/kernel"].tobytes()) + 3] ^= 64
        state.write_bytes(data)
    elif damage == "half info":
        info.write_text(info.read_text()[:20])
    elif damage == "empty":
        state.write_bytes(b"")
    else:
        (state if damage == "no arrays" else info).unlink()
    found, content, _ = checkpoints.newest()
    assert found.name == "step-00000001"
    assert content["step"] == 1
    assert len(caplog.messages) == 1
    assert "step-00000002" in caplog.messages[0]
    assert "is skipped, the one before is used" in caplog.messages[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step", True), ("schedule", "x"), ("schedule", []), ("interval", [1]), ("interval", [{"a": 1}, "b"]),
        ("data", {"kind": [1]}), ("data", {"label_names": [1]}), ("data", {"tokenizer_sha256": {"a": 1}}),
        ("data", {"seq_length": -1}), ("config", {"trainer": {"best_checkpoint_export_subdir": [1]}}),
        ("config", {"trainer": {"best_checkpoint_eval_metric": {}}}),
    ],
)  # fmt: skip
def test_information_of_another_form_is_damage(checkpoints, caplog, name, value):
    checkpoints.save(1, arrays(1), {})
    folder = checkpoints.save(2, arrays(2), {})
    (folder / native.INFO).write_text(json.dumps({"format_version": 1, "step": 2, name: value}))
    assert checkpoints.newest()[0].name == "step-00000001"
    assert (next(iter(value)) if name == "data" else name) in caplog.messages[0]


@pytest.mark.parametrize("config", [{"trainer": None}, {"trainer": "x"}, {"trainer": [1]}, {}])
def test_a_best_checkpoint_that_does_not_say_its_trainer(tmp_path, config):
    best = BestCheckpoint(tmp_path, "f1", higher=True)
    native.write(native.step_folder(tmp_path, 1), {}, {"step": 1, "config": config, "best": {"f1": 0.5}})
    assert best.value() == 0.5


def test_none_at_all_is_none(checkpoints, caplog):
    assert checkpoints.newest() is None
    assert caplog.messages == []


def test_all_damaged_are_named_with_their_faults(checkpoints, caplog):
    """A start at step 0 in their place would cut the metrics and, once there are enough new ones, delete them."""
    for step in (1, 2, 3):
        checkpoints.save(step, arrays(step), {})
    (native.step_folder(checkpoints.folder, 1) / native.INFO).unlink()
    (native.step_folder(checkpoints.folder, 2) / native.ARRAYS).write_bytes(b"PK")
    (native.step_folder(checkpoints.folder, 3) / native.INFO).write_text("{")
    with pytest.raises(DataError) as caught:
        checkpoints.newest()
    message = str(caught.value)
    assert message.startswith(f"no checkpoint in {checkpoints.folder} is whole")
    places = [message.index(f"step-{step:08d}") for step in (3, 2, 1)]
    for at, behind, fault in zip(
        places, [*places[1:], None], ("not JSON", "not a zip file", "cannot be read"), strict=True
    ):
        assert fault in message[at:behind]
    assert "use another model_dir, or remove these folders" in message
    assert len(native.finished(checkpoints.folder)) == 3
    assert caplog.messages == []


def test_damaged_later_ones_do_not_push_whole_ones_out(checkpoints, tmp_path):
    for step in (1, 20, 30, 40):
        native.write(native.step_folder(checkpoints.folder, step), arrays(step), {"step": step})
        if step > 1:
            (native.step_folder(checkpoints.folder, step) / native.INFO).unlink()
    resumed = Checkpoints(tmp_path, 2, step=1)
    for step, kept in ((5, {1, 5}), (9, {5, 9}), (20, {9, 20})):
        resumed.save(step, arrays(step), {})
        whole = {native.step_of(folder) for folder in native.finished(resumed.folder)} - {30, 40}
        assert whole - ({20} if step < 20 else set()) == kept
        assert resumed.newest()[1]["step"] == step
    assert native.step_folder(resumed.folder, 40).exists()


def test_steps_are_ordered_as_numbers_and_names_must_agree(checkpoints, caplog):
    for step in (99_999_999, 100_000_000):
        checkpoints.save(step, arrays(step % 7), {})
    assert checkpoints.newest()[1]["step"] == 100_000_000
    native.step_folder(checkpoints.folder, 100_000_000).rename(checkpoints.folder / "step-200000000")
    assert checkpoints.newest()[1]["step"] == 99_999_999
    assert "step-200000000 is damaged: state.json is of step 100000000" in caplog.messages[0]


def test_what_a_killed_run_left_is_not_a_checkpoint_and_is_removed(checkpoints):
    left = checkpoints.folder / f".step-00000009.{'0a' * 16}.tmp"
    left.mkdir(parents=True)
    (left / native.ARRAYS).write_bytes(b"half")
    assert checkpoints.newest() is None
    with temporary(native.step_folder(checkpoints.folder, 8), folder=True) as held:  # of a run that is at work
        checkpoints.save(10, arrays(), {})
        assert held.exists()
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["step-00000010"]


@pytest.mark.bound(60)
def test_what_a_live_process_writes_stays_until_it_is_killed(checkpoints):
    """Of the same step and of another; what it was writing goes with the next checkpoint after its end."""
    checkpoints.save(1, arrays(), {})
    with (
        another_process(native.step_folder(checkpoints.folder, 2), folder=True) as same,
        another_process(native.step_folder(checkpoints.folder, 9), folder=True) as later,
    ):
        (same / native.ARRAYS).write_bytes(b"half")
        checkpoints.save(2, arrays(), {})
        assert (same / native.ARRAYS).read_bytes() == b"half"
        assert later.exists()
        assert checkpoints.newest()[1]["step"] == 2
    checkpoints.save(3, arrays(), {})
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == [f"step-0000000{step}" for step in (1, 2, 3)]


@pytest.mark.parametrize("kept", ["newest", "best"])
def test_a_link_among_the_checkpoints_goes_and_what_it_leads_to_stays(tmp_path, kept):
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious.txt").write_text("precious")
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    for step in (1, 3):  # one to be pruned, one in the place of the next
        native.step_folder(folder, step).symlink_to(other)
    (folder / "step-notes").mkdir()
    if kept == "newest":
        Checkpoints(tmp_path, 1).save(3, arrays(), {})
    else:
        assert BestCheckpoint(folder, "loss", higher=False).offer(1.0, 3, arrays, {})
    assert sorted(path.name for path in folder.iterdir()) == ["step-00000003", "step-notes"]
    assert not native.step_folder(folder, 3).is_symlink()
    assert [path.name for path in other.iterdir()] == ["precious.txt"]


def test_full_disk_while_saving_leaves_the_older_ones_whole(checkpoints, tmp_path):
    checkpoints.save(1, arrays(), {})
    large = {"model/a": np.ones((500, 500), np.float32)}
    with (
        files_up_to(100_000),
        pytest.raises(DataError, match=r"cannot write the checkpoint(.|\n)*Earlier checkpoints are whole"),
    ):
        checkpoints.save(2, large, {})
    assert [path.name for path in checkpoints.folder.iterdir()] == ["step-00000001"]
    assert checkpoints.newest()[0].name == "step-00000001"


def test_best_by_a_metric(tmp_path):
    best = BestCheckpoint(tmp_path / "best", "accuracy", higher=True)
    offered = [
        best.offer(value, step, lambda: arrays(), {}) for step, value in ((1, 0.5), (2, 0.4), (3, 0.5), (4, 0.6))
    ]
    assert offered == [True, False, False, True]
    assert [folder.name for folder in native.finished(best.folder)] == ["step-00000004"]
    lower = BestCheckpoint(tmp_path / "low", "loss", higher=False)
    assert [lower.offer(value, step, arrays, {}) for step, value in ((1, 0.5), (2, 0.6), (3, 0.4))] == [
        True,
        False,
        True,
    ]
    assert lower.value() == 0.4


def best_of(tmp_path, higher, values):
    """A folder of best checkpoints, as a kill between writing one and removing the one before leaves it."""
    best = BestCheckpoint(tmp_path / "best", "f1", higher)
    for step, value in values.items():
        native.write(native.step_folder(best.folder, step), arrays(step), {"step": step, "best": {"f1": value}})
    return best


@pytest.mark.parametrize("sign", [1, -1])
def test_of_two_best_checkpoints_the_newer_one_counts(tmp_path, said, sign):
    best = best_of(tmp_path, sign > 0, {2: 0.5 * sign, 10: 0.6 * sign})
    assert best.value() == 0.6 * sign
    assert native.locate(best.folder) == native.step_folder(best.folder, 10)
    for value in (0.55, 0.6):  # better than the older one alone; equal
        assert not best.offer(value * sign, 12, arrays, {})
    assert [native.step_of(folder) for folder in native.finished(best.folder)] == [2, 10]
    assert best.offer(0.7 * sign, 14, arrays, {})
    assert [native.step_of(folder) for folder in native.finished(best.folder)] == [14]
    assert said == []


def test_of_two_best_checkpoints_the_older_one_counts_where_the_newer_is_damaged_or_of_another_metric(tmp_path, said):
    best = best_of(tmp_path, True, {2: 0.5, 10: 0.6})
    native.write(native.step_folder(best.folder, 11), arrays(), {"step": 11, "best": {"loss": 0.1}})
    (native.step_folder(best.folder, 10) / native.ARRAYS).write_bytes(b"")
    assert best.value() == 0.5
    assert len(said) == 1
    assert best.offer(0.55, 12, arrays, {})
    assert [native.step_of(folder) for folder in native.finished(best.folder)] == [12]


@pytest.mark.bound(120)
def test_a_kill_at_any_moment_leaves_the_best_one(tmp_path):
    best = BestCheckpoint(tmp_path / "best", "f1", True)
    states = set()
    for step in range(60):
        shutil.rmtree(best.folder, ignore_errors=True)
        best.offer(0.5, 1, lambda: arrays(1), {})
        _, interrupted = run_killed(lambda: best.offer(0.6, 2, lambda: arrays(2), {}), step)
        there = [native.step_of(folder) for folder in native.finished(best.folder)]
        states.add(tuple(there))
        assert best.value() == (0.6 if 2 in there else 0.5)
        assert native.read_arrays(native.locate(best.folder))["optimizer/iterations"] == there[-1]
        assert best.offer(0.6, 2, lambda: arrays(2), {}) == (2 not in there)
        if not interrupted:
            break
        assert best.offer(0.7, 3, lambda: arrays(3), {})
        assert sorted(os.listdir(best.folder)) == ["step-00000003"]
    assert not interrupted
    assert states == {(1,), (1, 2), (2,)}


def test_a_damaged_best_is_reported_and_gives_way(tmp_path, said):
    best = BestCheckpoint(tmp_path / "best", "accuracy", True)
    assert best.offer(0.9, 1, arrays, {})
    (native.step_folder(best.folder, 1) / native.ARRAYS).write_bytes(b"")
    assert best.offer(0.5, 2, arrays, {})
    assert "step-00000001 is damaged: state.npz" in said[0]
    assert [folder.name for folder in native.finished(best.folder)] == ["step-00000002"]
    assert not best.offer(0.4, 3, arrays, {})
    assert len(said) == 1


# ------------------------------------------------------------------------------------------------------ as weights


@pytest.mark.parametrize("file", [native.ARRAYS, native.INFO])
def test_reading_a_run_skips_damaged_ones_and_reports_it(tmp_path, file, caplog):
    """Predictions, exports, init_checkpoint and sweeps read the run through this; a checkpoint by its name is itself."""
    encoder = {"type": "albert", "options": {"vocab_size": 300, "hidden_size": 64, "num_attention_heads": 4}}
    folders = [tmp_path / "run" / "checkpoints" / f"step-0000000{step}" for step in (1, 2)]
    for step, folder in enumerate(folders, 1):
        native.write(folder, arrays(step), {"step": step, "encoder": encoder})
    (folders[1] / file).unlink()
    assert read_checkpoint(tmp_path / "run").source == str(folders[0])
    assert native.locate(tmp_path / "run") == folders[0]
    assert f"{folders[1]}" in caplog.text
    assert "it is skipped, the one before is used" in caplog.text
    assert read_encoder(str(tmp_path / "run")).options.hidden_size == 64
    with pytest.raises(DataError, match=r"step-00000002.*state\.(npz|json)"):
        read_checkpoint(folders[1])
    (folders[0] / file).unlink()
    with pytest.raises(DataError, match=r"no checkpoint in .*checkpoints is whole"):
        read_checkpoint(tmp_path / "run")


def test_a_checkpoint_of_a_later_version_is_not_skipped(checkpoints):
    checkpoints.save(1, arrays(1), {})
    checkpoints.save(2, arrays(2), {"format_version": 99})
    with pytest.raises(DataError, match="step-00000002 was written by a later version"):
        checkpoints.newest()


def test_read_finds_the_newest_from_any_folder_of_the_run(tmp_path):
    checkpoints = Checkpoints(tmp_path / "run")
    encoder = {"type": "albert", "options": {"vocab_size": 300, "hidden_size": 64, "num_attention_heads": 4}}
    for step in (1, 2):
        checkpoints.save(step, arrays(step), {"encoder": encoder, "data": {"tokenizer_sha256": "ab"}})
    newest = tmp_path / "run" / "checkpoints" / "step-00000002"
    for path in (tmp_path / "run", newest.parent, newest, newest / native.ARRAYS, newest / native.INFO):
        found = read_checkpoint(path)
        assert found.format == "native"
        assert found.source == str(newest)
        assert list(found.weights) == ["encoder/kernel"]  # no optimizer state
        assert found.encoder.type == "albert"
        assert found.encoder.options.hidden_size == 64
        assert found.extras == {"tokenizer_sha256": "ab"}


def test_what_is_not_a_checkpoint(tmp_path):
    (tmp_path / "variables").mkdir()
    (tmp_path / "variables" / "variables.index").write_bytes(b"x")
    with pytest.raises(DataError):  # found, as a TensorFlow checkpoint, and damaged
        read_checkpoint(tmp_path / "variables" / "variables")
    with pytest.raises(UsageError, match="no such file, folder or checkpoint prefix"):
        read_checkpoint(tmp_path / "nothing")
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    with pytest.raises(UsageError, match="no finished checkpoint"):
        read_checkpoint(tmp_path / "run")
    later = tmp_path / "later"
    native.write(later, arrays(), {"step": 1})
    info = json.loads((later / native.INFO).read_text()) | {"format_version": 99}
    (later / native.INFO).write_text(json.dumps(info))
    with pytest.raises(DataError, match="written by a later version"):
        read_checkpoint(later)


@pytest.mark.parametrize("how", [run_killed, run_failing])
def test_a_new_folder_is_whole_or_absent_wherever_its_writing_is_interrupted(tmp_path, how):
    """As convert and export write it; the same command completes it and leaves nothing else."""
    checkpoint = Checkpoint("native", "run1", tiny(), {"encoder/pooler/kernel": np.ones((32, 32), np.float32)})
    target = tmp_path / "new"

    def command():
        try:
            write_checkpoint(target, checkpoint, "native")
        except NlpdataError as error:
            return error.exit_code
        return 0

    for step in range(40):
        shutil.rmtree(target, ignore_errors=True)
        _, interrupted = how(command, step)
        whole = target.exists()
        if whole:
            assert sorted(native.read_arrays(target)) == ["model/encoder/pooler/kernel"]
        if not interrupted:
            break
        assert command() == (2 if whole else 0), step
        assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert not interrupted
    assert step > 6


def test_a_model_that_was_not_built_is_not_loaded_in_silence():
    """tensorflow/tensorflow#35930: loading before building restores nothing."""
    from pretrain.encoders.model import EncoderModel, build_encoder

    unbuilt = EncoderModel(build_encoder(tiny()))
    checkpoint = Checkpoint("native", "run1", None, {"encoder/pooler/kernel": np.ones((32, 32), np.float32)})
    with pytest.raises(ValueError, match="not built"):
        assign(unbuilt, checkpoint)
