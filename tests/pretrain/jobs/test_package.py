"""The source that a job takes along."""

import tarfile

import pytest

from nlpdata.errors import UsageError
from pretrain.jobs.package import build_package, module_sources


def test_the_package_is_whole(tmp_path):
    package = build_package(tmp_path)
    with tarfile.open(package) as archive:
        folders, names = zip(*(name.split("/", 1) for name in archive.getnames()), strict=True)
    assert set(folders) == {package.name.removesuffix(".tar.gz")}  # one, as pip expects
    names = set(names)
    assert {"pyproject.toml", "README.md", "LICENSE"} <= names  # what pyproject.toml refers to
    assert {
        "pretrain/run.py",
        "nlpdata/cli/commands.py",
        "pipelines/job.py",
        "model_configs/albert_base_v2.json",
    } <= names
    assert "pretrain/configs/experiments/glue_mrpc.yaml" in names


def test_a_module_that_cannot_be_found():
    with pytest.raises(UsageError, match="there is no module 'no_such_module'"):
        module_sources(["json", "no_such_module.part"])
