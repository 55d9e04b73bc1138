"""Every option of pretrain's commands that Typer parses, with extreme values. Those of pretrain.run are in settings.py."""

from functools import partial
from importlib import import_module
from typing import Any

from tests.fuzz.cases import Case, target
from tests.fuzz.targets.checkpoints import _give as give_checkpoint
from tests.fuzz.targets.options import odd_options
from tests.fuzz.targets.runs import ONE_STEP_OF_GLUE, _give_classifier, _give_glue, _give_pretraining, backend

_NEVER = {"--help", "--import_module", "--import-module"}


def _base(command: str, case: Case) -> list[Any]:
    given, out = case.given, case.folder
    if command == "convert":
        return [given / "made", out / "new", "--format", "native"]
    if command == "export":
        return [given / "run", out / "new", "--format", "hf"]
    if command == "predict":
        return ["--model_dir", given / "run", "--input", case.write("a.txt", "the house\n"), "--output", out / "p.tsv"]
    if command == "glue":
        data = ["--input", given / "glue", "--tasks", "sst2", "--max_seq_length", 16, "--backend", backend()]
        return [
            "--init_checkpoint",
            given / "run",
            "--output",
            out / "s",
            *data,
            ONE_STEP_OF_GLUE,
        ]
    return ["--staging", "gs://bucket/x", "--dry_run"]


def _at_work(command: str, case: Case) -> None:
    import typer

    module = import_module(f"pretrain.{command}")
    parameters = [each for each in typer.main.get_command(module.app).params if each.param_type_name == "option"]
    rest = ["--", "--experiment=bert/pretraining"] if command == "submit" else []
    case.command(module.main, *_base(command, case), *odd_options(case, parameters, _NEVER), *rest)


for _command, _give, _cost in (
    ("convert", partial(give_checkpoint, "hf", "bert"), 5),
    ("export", _give_pretraining, 10),
    ("predict", _give_classifier, 20),
    ("glue", _give_glue, 100),
    ("submit", None, 1),
):
    target(f"options/pretrain.{_command}", give=_give, heavy=True, cost=_cost)(partial(_at_work, _command))
