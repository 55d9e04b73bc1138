"""The commands of docs/migration run as they stand, step by step in one folder, from text to score."""

import re
import sys
from pathlib import Path

import pytest

from nlpdata.cli.aliases import ALIASES
from nlpdata.cli.older import OLDER
from pretrain.settings.flags import find_flag
from pretrain.settings.schema import registered
from pretrain.settings.tree import to_tree
from tests import named_options, warm_python
from tests.migration.systems import SYSTEMS, index
from tests.pages import commands_of_this_environment, lines_of_libraries, run_script

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "migration"


def test_pages_are_those_of_the_list():
    pages = {"README.md": index(), **{f"{system.name}.md": system.page() for system in SYSTEMS}}
    assert {path.name for path in FOLDER.iterdir()} == pages.keys()
    for name, text in pages.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, f"{name} is old: run `python -m tests.migration`"


def test_tables_of_flags_name_options_of_their_commands():
    for flags in (flags for system in SYSTEMS for flags in system.flags):
        known = set().union(*(named_options._names(command) for command in flags.commands))
        for command, name in (*ALIASES, *OLDER):
            known |= {name} if f"nlpdata {command}" in flags.commands else set()
        for names, _, ours, _, _ in flags.rows():
            assert ours, f"{flags.program}: {names} says nothing"
            if ours in ("same", "accepted"):
                unknown = [name for name in names if name.replace("_", "-") not in known]
                assert not unknown, f"{flags.program}: {unknown} is no option of {flags.commands}"
            for option in re.findall(r"`--([a-z][\w-]*)", ours):
                assert option.replace("_", "-") in known, (
                    f"{flags.program}: --{option} ({names}) is not one of {flags.commands}"
                )


def test_tables_of_flags_have_the_defaults_of_their_experiment():
    compared, wrong = 0, []
    for flags in (flags for system in SYSTEMS for flags in system.flags if flags.experiment):
        config = to_tree(registered(flags.experiment))
        for names, there, ours, default, remark in flags.rows():
            for field in re.findall(r"[=,]((?:task|trainer|runtime)\.[\w.]+)=", ours):
                assert _has(config, field), f"{flags.program}: {names}: no field {field}"
            flag = find_flag(names[0] if ours == "same" else (re.findall(r"^`--(\w+)`$", ours) or [""])[0])
            shown = default or there  # an empty cell says that both are equal
            if flag and flag.fields and re.fullmatch(_NUMBER, shown) and "by default" not in remark:
                compared += 1
                own = _value(config, flag.fields[0])
                if own != _number(shown) and (own or shown != "none"):
                    wrong.append(f"{flags.program} {names}: {own}, not {shown}")
    assert not wrong, "\n".join(wrong)
    assert compared > 60


_NUMBER = r"-?[\d.]+(e-?\d+)?|adamw|lamb|none"


def _value(config, path):
    for name in path.split("."):
        config = config[name] if name in config else config[config["type"]][name]
    return config


def _has(config, path):
    try:
        _value(config, path)
    except KeyError:
        return False
    return True


def _number(text):
    return float(text) if text[-1].isdigit() else text


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_a_document_runs_from_data_to_score(system, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    system.give(folder)
    warm, cold = (
        commands_of_this_environment(tmp_path / name, python)
        for name, python in (("warm", warm_python.COMMAND), ("cold", [sys.executable]))
    )
    exported = tmp_path / "exported"
    exported.touch()
    for step in system.steps:
        script = f". {exported}\n{system.tried(step)}\nexport -p | grep -v '^declare -x PATH=' > {exported}\n"
        done = run_script(script, folder, cold if step.imports else warm)
        assert done.returncode == 0, f"{step.heading}: {script}\n{done.stdout}"
        assert not lines_of_libraries(done.stdout), f"{step.heading}: lines of a library in\n{done.stdout}"
        for pattern in step.prints:
            assert re.search(pattern, done.stdout, re.MULTILINE), f"{step.heading}: no {pattern!r} in\n{done.stdout}"
        for name in step.writes:
            assert (folder / name).exists(), f"{step.heading}: no {name}. It wrote:\n{done.stdout}"
        if step.check:
            step.check(folder, done.stdout)
