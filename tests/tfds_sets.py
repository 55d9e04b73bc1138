"""Small sets of TensorFlow Datasets, prepared without a network."""

import zipfile

import pytest

from tests.nlpdata.finetuning.texts import write

ROWS = {
    "rte": (
        "RTE",
        "sentence1\tsentence2\tlabel",
        [("the fox {i}", "a dog", "entailment"), ("a {i}", "b", "not_entailment")],
    ),
    "sst2": ("SST-2", "sentence\tlabel", [("a good fox {i}", "1"), ("a bad dog {i}", "0")]),
    "mnli": (
        "MNLI",
        "sentence1\tsentence2\tgold_label",
        [("the fox {i}", "x", n) for n in ("neutral", "entailment", "contradiction")],
    ),
    "stsb": ("STS-B", "sentence1\tsentence2\tscore", [("the fox {i}", "a dog", "2.500"), ("a {i}", "b", "0.25")]),
}
MNLI_COLUMNS = (
    "promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse".split()
)


def _files(folder, task):
    """A GLUE folder, with all columns that TFDS asks for."""
    name, header, rows = ROWS[task]
    kinds = ("", "") if task != "mnli" else ("_matched", "_mismatched")
    splits = ["train", *(f"{split}{kind}" for split in ("dev", "test") for kind in dict.fromkeys(kinds))]
    for split in splits:
        lines = [["index", *(MNLI_COLUMNS if task == "mnli" else []), *header.split("\t")]]
        for i in range(12):
            row = [field.format(i=i) for field in rows[i % len(rows)]]
            lines.append([str(i), *(["x"] * 7 if task == "mnli" else []), *row])
        if split.startswith("test"):
            lines = [line[:-1] for line in lines]
        write(folder / name / f"{split}.tsv", *lines)
    return name, splits


def prepare(folder, tasks):
    """(TSV folders, TFDS data folder) of the same rows. TFDS reads archives under their registered names."""
    tfds = pytest.importorskip("tensorflow_datasets")
    from tensorflow_datasets.core.download import checksums

    archives = folder / "archives"
    archives.mkdir()
    for task in tasks:
        name, splits = _files(folder / "glue", task)
        with zipfile.ZipFile(archives / f"{name}.zip", "w") as archive:
            for split in splits:
                archive.write(folder / "glue" / name / f"{split}.tsv", f"{name}/{split}.tsv")
        builder = tfds.builder(f"glue/{task}", data_dir=folder / "data")
        kind = type(builder)
        kind.url_infos = dict(kind.url_infos or {}) | {
            builder.builder_config.data_url: checksums.compute_url_info(archives / f"{name}.zip")
        }
        config = tfds.download.DownloadConfig(manual_dir=archives, try_download_gcs=False)
        builder.download_and_prepare(download_dir=folder / "downloads", download_config=config)
    return folder / "glue", folder / "data"
