"""Checkpoints of every format that is read: weights, configurations, what a run keeps, archives."""

import json
from functools import partial
from pathlib import Path

from tests.fuzz.cases import Case, target
from tests.fuzz.targets.archives import archive

_SIZES = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
}


def _checkpoint(encoder: str):
    """A small checkpoint with pretraining heads, in memory."""
    import numpy as np

    from pretrain.converters.checkpoint import Checkpoint
    from pretrain.converters.load import build_model
    from pretrain.encoders.model import weights_by_path
    from pretrain.registry import ENCODERS
    from pretrain.settings.fields import Choice

    own = {"embedding_size": 8} if encoder == "albert" else {}
    choice = Choice(encoder, ENCODERS.get(encoder).config_class(**_SIZES, **own))
    heads = {
        "masked_lm/output_bias": np.zeros(60, "float32"),
        "sentence_pair/logits/kernel": np.zeros((16, 2), "float32"),
    }
    model = build_model(Checkpoint("native", "made here", choice, heads))
    draw = np.random.default_rng(0)
    weights = {path: draw.normal(0, 0.3, each.shape).astype("float32") for path, each in weights_by_path(model).items()}
    return Checkpoint("native", "made here", choice, weights)


def _give(format: str, encoder: str, folder: Path) -> None:
    from pretrain.converters.write import write_checkpoint

    write_checkpoint(folder / "made", _checkpoint(encoder), format)


def _give_torch(folder: Path) -> None:
    from pretrain.converters.safetensors import Safetensors
    from tests.pretrain.converters.torch_files import as_archive, as_stream

    _give("hf", "bert", folder)
    tensors = dict(Safetensors(folder / "made/model.safetensors"))
    (folder / "made/model.safetensors").unlink()
    for name, write in (("archive", as_archive), ("stream", as_stream)):
        (folder / name).write_bytes(write(tensors))


def _read(place: Path) -> None:
    from pretrain.converters import read_checkpoint
    from pretrain.converters.sizes import check_sizes

    checkpoint = read_checkpoint(str(place))
    checkpoint.known_encoder  # noqa: B018 (raises where there is none)
    check_sizes(checkpoint)


def _hurt(case: Case, folder: Path) -> Path:
    """A copy of a folder with one of its files damaged; JSON also by its values."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    victim = case.draw.choice(files)
    for path in files:
        content = path.read_bytes()
        if path == victim:
            content = case.odd_json(json.loads(content)) if path.suffix == ".json" else case.damaged(content)
        case.write(f"copy/{path.relative_to(folder)}", content)
    return case.folder / "copy"


def _damaged(file: str, case: Case) -> None:
    _read(_hurt(case, case.given / "made") / file)


for _name, _format, _encoder, _file in (
    ("safetensors", "hf", "bert", ""),
    ("npz", "native", "albert", ""),
    ("tensorflow-index", "tf1", "albert", ""),
    ("keras-h5", "h5", "albert", "tf2_model_full.h5"),
):
    target(f"checkpoints/{_name}", give=partial(_give, _format, _encoder), heavy=True)(partial(_damaged, _file))


@target("checkpoints/torch-bin", give=_give_torch, heavy=True)
def _torch(case: Case) -> None:
    case.write("copy/config.json", (case.given / "made/config.json").read_bytes())
    content = (case.given / case.draw.choice(("archive", "stream"))).read_bytes()
    case.write("copy/pytorch_model.bin", case.damaged(content))
    _read(case.folder / "copy")


@target("checkpoints/archive", give=partial(_give, "hf", "bert"), heavy=True)
def _archive(case: Case) -> None:
    members = {f"model/{path.name}": path.read_bytes() for path in (case.given / "made").iterdir() if path.is_file()}
    data = archive(case, members)
    _read(case.write("model.tar.gz", case.damaged(data) if case.draw.random() < 0.7 else data))
