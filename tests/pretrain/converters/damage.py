"""Ways to damage the files of checkpoints: each function returns one, from a file's bytes to other bytes."""

import io
import json
import tarfile
import zipfile

import h5py
import numpy as np


def cut(share):
    return lambda data: data[: int(len(data) * share)]


def flip(at):
    """Inverts a byte; `at` is a position, or a share of the length."""

    def change(data):
        place = int(len(data) * at) if isinstance(at, float) else at
        return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]

    return change


def text(content):
    return lambda data: content if isinstance(content, bytes) else content.encode()


def fields(**changes):
    """Other values in a JSON object; ... removes a field."""

    def change(data):
        values = json.loads(data) | changes
        return json.dumps({name: value for name, value in values.items() if value is not ...}).encode()

    return change


def header(change):
    """Another JSON header of a safetensors file."""

    def damage(data):
        end = 8 + int.from_bytes(data[:8], "little")
        values = json.loads(data[8:end])
        found = change(values)
        raw = found if isinstance(found, bytes) else json.dumps(values if found is None else found).encode()
        return len(raw).to_bytes(8, "little") + raw + data[end:]

    return damage


def entry(**changes):
    """Other facts about one tensor of a safetensors file."""
    return header(lambda values: values["cls.predictions.bias"].update(changes))


def npz(**arrays):
    def damage(data):
        kept = dict(np.load(io.BytesIO(data)))
        file = io.BytesIO()
        np.savez(file, **{name: value for name, value in (kept | arrays).items() if value is not ...})
        return file.getvalue()

    return damage


def h5(change):
    def damage(data):
        file = io.BytesIO(data)
        with h5py.File(file, "r+") as opened:
            change(opened)
        return file.getvalue()

    return damage


def zipped(**files):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/"), content)
    return text(file.getvalue())


def tarred(add):
    def damage(data):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w:gz") as archive:
            add(archive)
        return file.getvalue()

    return damage


def member(name, kind=tarfile.REGTYPE, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return tarred(lambda archive: archive.addfile(info))
