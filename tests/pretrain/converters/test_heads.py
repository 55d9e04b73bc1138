"""Which heads of a checkpoint are used, by one rule; those that cannot be used are left out, and this is reported."""

import logging
from dataclasses import replace

import numpy as np
import pytest

import pretrain
from nlpdata.errors import DataError, UsageError
from pretrain.convert import main as convert
from pretrain.converters import assign, native, read_checkpoint, safetensors
from pretrain.converters.heads import HEADS, head_of, settled
from pretrain.converters.load import build_model
from pretrain.converters.write import write_checkpoint
from pretrain.prediction.file import predict
from pretrain.settings.schema import ModelConfig
from pretrain.tasks.pretraining import PretrainingConfig, PretrainingTask
from tests.messages import messages
from tests.pretrain.converters.heads import FAMILIES, WORDS, classifier, edit, refused, rewrite
from tests.pretrain.converters.test_round_trips import make
from tests.pretrain.finetuning import records, sentence_experiment
from tests.pretrain.tasks.test_sentence_prediction import task_of

# ------------------------------------------------------------------------------------------------- architectures, and none


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("bert", "ForTokenClassification"),
        ("albert", "ForTokenClassification"),
        ("mobilebert", "ForTokenClassification"),
        ("bert", "WithATwist"),
    ],
)
def test_a_head_that_we_lack(family, name, tmp_path, capsys, caplog):
    """Its encoder can be used; what needs the head is refused."""
    source = tmp_path / "hf"
    write_checkpoint(source, classifier("classification", family), "hf")
    name = FAMILIES[family] + name
    edit(source, architectures=[name])
    checkpoint = read_checkpoint(str(source))
    assert checkpoint.head is None
    assert checkpoint.left_out == {name: "a class whose head none of our models has"}
    assert checkpoint.unused["classifier.weight"] == f"of {name}, which is left out"
    with caplog.at_level(logging.WARNING):
        assert set(pretrain.load(str(source)).heads) == set()
    assert f"left out: {name}: a class whose head" in caplog.text
    with pytest.raises(UsageError, match=rf"holds no fine-tuned head .*Left out: {name}: "):
        predict(source, "in.txt", tmp_path / "out.tsv")
    assert f"{name}: a class whose head" in refused([source, tmp_path / "out", "--format", "native"], capsys)
    assert not (tmp_path / "out").exists()
    assert convert([str(source), str(tmp_path / "out"), "--format", "native", "--encoder_only"]) == 0
    assert not read_checkpoint(str(tmp_path / "out")).left_out
    task = PretrainingTask(PretrainingConfig(init_checkpoint=str(source), model=ModelConfig(checkpoint.encoder)))
    with messages() as said:
        report = task.initialize(task.build_model())
    assert {path for path in report.missing if path.startswith("encoder/")} == set()
    assert f"left out: {name} (" in "\n".join(said)


def test_classes_of_one_head(tmp_path):
    """Which of transformers' classes read which head; a published file may hold more than its class."""
    for heads, names in (
        ("pretraining", ("ForPreTraining", "ForMaskedLM", "ForNextSentencePrediction", "Model", "LMHeadModel")),
        ("span", ("ForQuestionAnswering",)),
        ("choice", ("ForMultipleChoice",)),
    ):
        write_checkpoint(tmp_path / heads, make("bert", heads), "hf")
        wanted = {head_of(path) for path in make("bert", heads).weights}
        for name in names:
            for prefix in ("", "TF", "Flax"):
                edit(tmp_path / heads, architectures=[f"{prefix}Bert{name}"])
                again = read_checkpoint(str(tmp_path / heads))
                assert ({head_of(path) for path in again.weights}, again.left_out) == (wanted, {})
        edit(tmp_path / heads, architectures=["RobertaForMaskedLM"])
        assert "RobertaForMaskedLM" in read_checkpoint(str(tmp_path / heads)).left_out


@pytest.mark.parametrize("family", FAMILIES)
def test_without_architectures_the_shape_decides(family, tmp_path):
    def read(name, kind, pooler=True, **fields):
        encoder = "mobilebert pooled" if (family, pooler) == ("mobilebert", True) else family
        write_checkpoint(tmp_path / name, classifier(kind, encoder), "hf")
        edit(tmp_path / name, architectures=..., **fields)
        if not pooler:
            rewrite(tmp_path / name, lambda tensors: [tensors.pop(key) for key in list(tensors) if "pooler" in key])
        return read_checkpoint(str(tmp_path / name))

    said = read("said", "multilabel")
    assert (said.head.kind, said.left_out) == ("multilabel", {})
    rows = read("rows", "classification", problem_type=...)
    assert (rows.head.names, rows.left_out) == (("no", "maybe", "yes"), {})
    for name, kind, pooler in (("one", "regression", True), ("tokens", "classification", False)):
        unsure = read(name, kind, pooler, problem_type=...)
        assert unsure.head is None
        assert "may score sentences, tokens or choices" in unsure.left_out["classifier"]
        assert f'"architectures": ["{FAMILIES[family]}ForSequenceClassification"]' in unsure.left_out["classifier"]
    pretrain.load(str(tmp_path / "tokens"))


# ------------------------------------------------------------------------------------------------------- tied and untied

DECODER = {"bert": "cls.predictions.decoder", "albert": "predictions.decoder", "mobilebert": "cls.predictions.decoder"}


def hugging_face(family, folder):
    write_checkpoint(folder, make(family, "pretraining"), "hf")
    return folder, DECODER[family], f"{family}.embeddings.word_embeddings.weight"


@pytest.mark.parametrize("family", FAMILIES)
def test_tied_tensors_stand_in_for_each_other(family, tmp_path):
    source, decoder, words = hugging_face(family, tmp_path / "hf")
    tensors = safetensors.Safetensors(source / "model.safetensors")
    bias = decoder.replace("decoder", "bias")
    np.testing.assert_array_equal(tensors[f"{decoder}.bias"], tensors[bias])

    def keep_the_second(tensors):
        tensors[f"{decoder}.weight"] = tensors.pop(words)
        del tensors[bias]

    rewrite(source, keep_the_second)
    again, wanted = read_checkpoint(str(source)), make(family, "pretraining").weights
    assert again.weights.keys() == wanted.keys()
    for path in (WORDS, "masked_lm/output_bias"):
        np.testing.assert_array_equal(again.weights[path], wanted[path])
    assert not again.left_out


def untied(tensors, decoder, words):
    tensors[f"{decoder}.weight"] = tensors[words] + 1


def resized(tensors, decoder, words):
    tensors[f"{decoder}.weight"] = np.concatenate([tensors[words], tensors[words][:3]])
    tensors[decoder.replace("decoder", "bias")] = tensors[f"{decoder}.bias"] = np.zeros(63, np.float32)


@pytest.mark.parametrize(
    ("family", "damage"), [("bert", untied), ("bert", resized), ("albert", resized), ("mobilebert", untied)]
)
def test_an_output_layer_that_is_not_tied(family, damage, tmp_path, capsys):
    """Every use gets the encoder; what needs the head is refused, and pretraining can start a new one."""
    source, decoder, words = hugging_face(family, tmp_path / "hf")
    rewrite(source, lambda tensors: damage(tensors, decoder, words))
    checkpoint = read_checkpoint(str(source))
    assert checkpoint.left_out.keys() == {"masked_lm"}
    assert "is not tied to the embeddings" in checkpoint.left_out["masked_lm"]
    assert set(pretrain.load(str(source)).heads) == {"sentence_pair"}
    assert "masked_lm: " in refused([source, tmp_path / "out", "--format", "tf1"], capsys)
    assert convert([str(source), str(tmp_path / "out"), "--format", "native", "--encoder_only"]) == 0
    config = PretrainingConfig(init_checkpoint=str(source), model=ModelConfig(checkpoint.encoder))
    task = PretrainingTask(config)
    with pytest.raises(UsageError, match=r"cannot be trained further as it is\. masked_lm: .*task\.init_heads=false"):
        task.initialize(task.build_model())
    task = PretrainingTask(replace(config, init_heads=False))
    report = task.initialize(task.build_model())
    assert report.left_out.keys() == {"masked_lm", "sentence_pair"}
    assert not [path for path in report.missing if path.startswith("encoder/")]


def test_new_heads_on_the_encoder(tmp_path):
    write_checkpoint(tmp_path / "all", make("bert", "pretraining"), "native")
    options = {"init_checkpoint": str(tmp_path / "all"), "model": ModelConfig(make("bert", "encoder").encoder)}
    whole, new = (PretrainingTask(PretrainingConfig(init_heads=on, **options)) for on in (True, False))
    assert not whole.initialize(whole.build_model()).missing
    report = new.initialize(new.build_model())
    assert {head_of(path) for path in report.missing} == {"masked_lm", "sentence_pair"}
    assert report.left_out == dict.fromkeys(("masked_lm", "sentence_pair"), "task.init_heads is false")


# -------------------------------------------------------------------------------------------------------------- gaps


def test_one_activation_under_two_names_is_no_difference():
    checkpoint = make("bert", "encoder")
    model, known = build_model(checkpoint), checkpoint.encoder
    for there, here, expected in (
        ("gelu_new", "gelu_tanh", []),
        ("gelu", "gelu_tanh", ["hidden_act is 'gelu' in the checkpoint, 'gelu_tanh' in this model"]),
    ):
        theirs, ours = (
            replace(known, options=replace(known.options, hidden_act=name, layer_norm_eps=1e-12))
            for name in (there, here)
        )
        assert assign(model, replace(checkpoint, encoder=theirs), ours).warnings == expected


@pytest.mark.parametrize("encoder", ["bert", "albert groups", "mobilebert pooled"])
def test_every_gap_in_an_encoder_is_refused(encoder):
    """Whatever the head; but for a whole pooler that no head reads."""
    for heads in ("classifier", "span"):
        checkpoint = make(encoder, heads)
        model = build_model(checkpoint)
        for path in [path for path in checkpoint.weights if path.startswith("encoder/")]:
            weights = {name: array for name, array in checkpoint.weights.items() if name != path}
            with pytest.raises(DataError, match=rf"1 weights of the encoder are missing, e\.g\. {path}"):
                assign(model, replace(checkpoint, weights=weights))
        weights = {name: array for name, array in checkpoint.weights.items() if "encoder/pooler" not in name}
        poolerless = replace(checkpoint, weights=weights)
        if heads == "classifier":
            with pytest.raises(DataError, match=r"2 weights of the encoder are missing, e\.g\. encoder/pooler/bias"):
                assign(model, poolerless)
        else:
            assert set(assign(model, poolerless).missing) == {"encoder/pooler/bias", "encoder/pooler/kernel"}


def without(format, folder, path):
    """Removes one weight from a checkpoint of BERT or ALBERT of that format; returns what a user would name."""
    if format == "native":
        arrays = native.read_arrays(folder)
        del arrays[f"model/{path}"]
        native.write(folder, arrays, native.read_info(folder))
        return folder
    if format == "hf":
        rewrite(folder, lambda tensors: tensors.pop("bert.encoder.layer.1.attention.self.key.weight"))
        return folder
    if format == "h5":
        import h5py

        with h5py.File(folder / "tf2_model_full.h5", "r+") as file:
            del file["albert_model/albert_model/encoder/shared_layer/self_attention/key/kernel:0"]
        return folder / "tf2_model_full.h5"
    import tensorflow as tf

    prefix = str(folder / "bert_model.ckpt")
    reader = tf.train.load_checkpoint(prefix)
    names = sorted(reader.get_variable_to_shape_map().keys() - {"bert/encoder/layer_1/attention/self/key/kernel"})
    arrays = [reader.get_tensor(name) for name in names]
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=arrays)
    return folder


@pytest.mark.parametrize("format", ["native", "hf", "h5", "tf1"])
def test_every_use_refuses_a_gap_alike(format, tmp_path, capsys):
    encoder, layer = ("albert", "group_0/layer_0") if format == "h5" else ("bert", "layer_1")
    checkpoint = make(encoder, "pretraining")
    write_checkpoint(tmp_path / "source", checkpoint, format)
    place = without(format, tmp_path / "source", f"encoder/{layer}/attention/key/kernel")
    message = rf"1 weights of the encoder are missing, e\.g\. encoder/{layer}/attention/key/kernel"
    with pytest.raises(DataError, match=message):
        pretrain.load(str(place))
    assert "1 weights of the encoder are missing" in refused([place, tmp_path / "out", "--format", "native"], capsys)
    task = PretrainingTask(PretrainingConfig(init_checkpoint=str(place), model=ModelConfig(checkpoint.encoder)))
    with pytest.raises(DataError, match=message):
        task.initialize(task.build_model())


@pytest.mark.parametrize("encoder", ["bert", "albert", "mobilebert"])
def test_a_head_is_used_whole_or_not_at_all(encoder):
    """Any of its weights missing or of another shape: left out with that reason, and the encoder is whole."""
    for heads in ("pretraining", "classifier", "span"):
        checkpoint = make(encoder, heads)
        assert not settled(checkpoint).left_out
        for path in [path for path in checkpoint.weights if head_of(path) in HEADS]:
            less = {name: array for name, array in checkpoint.weights.items() if name != path}
            wider = checkpoint.weights | {path: np.zeros((*checkpoint.weights[path].shape, 1), np.float32)}
            for weights in (less, wider):
                if path == "classifier/logits/kernel" and weights is wider:
                    continue  # of two dimensions it must be to say how many classes there are
                found = settled(replace(checkpoint, weights=weights))
                assert path.removeprefix(f"{head_of(path)}/") in str(found.left_out) or "classifier" in found.left_out
                assert head_of(path) in found.left_out
                assert not [name for name in found.weights if head_of(name) == head_of(path)]
                assert found.weights.keys() >= {name for name in less if head_of(name) is None}


def test_predict_and_evaluation_refuse_half_a_head(tmp_path):
    checkpoint = classifier("classification")
    weights = {path: array for path, array in checkpoint.weights.items() if path != "classifier/logits/bias"}
    write_checkpoint(tmp_path / "half", replace(checkpoint, weights=weights), "native")
    with pytest.raises(UsageError, match="Left out: classifier: classifier/logits/bias is missing"):
        predict(tmp_path / "half", "in.txt", tmp_path / "out.tsv")


# ---------------------------------------------------------------------------------------------------------- fine-tuning


def test_a_classifier_of_another_kind_is_not_taken_over(tmp_path):
    config = sentence_experiment(records(tmp_path / "a.tfrecord", 16), steps=1)
    own = task_of(config)
    from tests.pretrain.prediction.test_predict import stored

    for kind, is_taken in (("classification", True), ("multilabel", False)):
        facts = {"kind": kind, "label_names": ["no", "yes", "maybe"]}
        stored(own, tmp_path / kind, config.task.model.encoder, **facts)
        task = task_of(replace(config, task=replace(config.task, init_checkpoint=str(tmp_path / kind))))
        with messages() as said:
            report = task.initialize(task.build_model())
        assert bool(report.missing) != is_taken
    assert "it tells multilabel with no, yes, maybe, not classification with no, yes, maybe" in "\n".join(said)


def test_the_evaluation_of_a_checkpoint_needs_its_head(tmp_path):
    config = sentence_experiment(records(tmp_path / "a.tfrecord", 16), steps=1)
    from pretrain.training import run_experiment
    from tests.pretrain.prediction.test_predict import stored

    stored(PretrainingTask(PretrainingConfig(model=config.task.model)), tmp_path / "base", config.task.model.encoder)
    config = replace(config, task=replace(config.task, init_checkpoint=str(tmp_path / "base")))
    with pytest.raises(
        UsageError, match="lacks classifier/logits/bias, classifier/logits/kernel, which the evaluation needs"
    ):
        run_experiment(config, tmp_path / "run", "eval")


def test_a_new_pooler_is_reported(tmp_path):
    config = sentence_experiment(records(tmp_path / "a.tfrecord", 16))
    from tests.pretrain.prediction.test_predict import stored

    model = config.task.model
    stored(
        PretrainingTask(PretrainingConfig(model=model, use_next_sentence_label=False)), tmp_path / "mlm", model.encoder
    )
    arrays = {name: array for name, array in native.read_arrays(tmp_path / "mlm").items() if "pooler" not in name}
    native.write(tmp_path / "mlm", arrays, native.read_info(tmp_path / "mlm"))
    task = task_of(replace(config, task=replace(config.task, init_checkpoint=str(tmp_path / "mlm"))))
    with messages() as said:
        task.initialize(task.build_model())
    assert "warning: the checkpoint has no pooler: the one that classifier reads starts anew" in said
