"""The class of all tables of named parts."""

import sys
from dataclasses import dataclass

import pytest

from nlpdata.errors import UsageError
from nlpdata.registry import Registry, user_modules, users_code


@dataclass
class Options:
    size: int = 1


class Part:
    config_class = Options


HERE = __name__


def parts(**options):
    return Registry("part", {"small": f"{HERE}:Part", "absent": "no_such_module_x:Part"}, **options)


def test_a_part_is_imported_when_it_is_asked_for():
    registry = parts()
    assert registry.get("small") is Part
    assert registry.get(f"{HERE}:Options") is Options
    with pytest.raises(ModuleNotFoundError):  # a fault of the table, not of the user
        registry.get("absent")


def test_parts_keep_the_order_of_their_registration():
    registry = parts()
    registry.register("a_later_one", f"{HERE}:Options")
    assert list(registry) == ["small", "absent", "a_later_one"]
    assert registry.names() == ["a_later_one", "absent", "small"]
    assert "a_later_one" in registry
    assert f"{HERE}:Options" not in registry
    registry.register("a_later_one", f"{HERE}:Options")
    with pytest.raises(ValueError, match=r"part 'small' is already .*:Part"):
        registry.register("small", f"{HERE}:Options")


def test_a_decorator_registers_what_it_decorates():
    registry = parts()
    assert registry.register("decorated")(Part) is Part
    assert registry.register("decorated")(Part) is registry.get("decorated")
    with pytest.raises(ValueError, match="part 'small' is already"):
        registry.register("small")(Options)

    class Inner:
        pass

    with pytest.raises(ValueError, match="Inner is not at the top level of its module"):
        registry.register("inner")(Inner)


def test_an_unknown_name_is_refused_with_the_closest():
    with pytest.raises(UsageError, match=r"unknown part 'smal'.*small.*absent.*module:attribute"):
        parts().get("smal")
    with pytest.raises(UsageError, match=r"part 'no_such_module_x:Part' cannot be imported"):
        parts().get("no_such_module_x:Part")
    with pytest.raises(UsageError, match=rf"part '{HERE}:Other' cannot be imported"):
        parts().get(f"{HERE}:Other")


def test_a_part_of_another_class_is_refused():
    registry = parts()
    assert registry.get_class("collections:OrderedDict", dict).__name__ == "OrderedDict"
    for name in ("collections:deque", "os:system"):
        with pytest.raises(UsageError, match=rf"part '{name}' is not a subclass of builtins\.dict: <"):
            registry.get_class(name, dict)


def test_a_table_whose_names_come_from_files_imports_only_what_is_registered(tmp_path, monkeypatch):
    (tmp_path / "part_of_a_file.py").write_text("Part = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = parts(by_path=False)
    with pytest.raises(UsageError, match=r"unknown part 'part_of_a_file:Part'\. Known: absent, small\.$"):
        registry.get("part_of_a_file:Part")
    assert "part_of_a_file" not in sys.modules


def test_options_are_those_that_the_part_declares():
    assert parts().config_class("small") is Options
    light = parts(configs={"absent": f"{HERE}:Options"})
    assert light.config_class("absent") is Options
    assert light.has_light_options("absent")
    assert not light.has_light_options("small")
    with pytest.raises(UsageError, match=r"declares no options"):
        parts().config_class(f"{HERE}:Options")


def test_a_stored_name_passes_while_its_module_is_named():
    registry, stored = parts(), f"{HERE}:Part"
    registry.check_stored("small")
    with pytest.raises(UsageError, match=rf"--import_module {HERE} "):
        registry.check_stored(stored)
    with pytest.raises(UsageError, match=r"unknown part 'smal'"):
        registry.check_stored("smal")
    with user_modules([f"json, {HERE}"]):
        registry.check_stored(stored)
    with pytest.raises(UsageError):
        registry.check_stored(stored)
    with (
        pytest.raises(
            UsageError, match=r"module 'no_such_module_x' cannot be imported: Module.*\. Give its dotted name"
        ),
        user_modules(["no_such_module_x"]),
    ):
        pass


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import no_such_module_x\n", r"ModuleNotFoundError: No module named 'no_such_module_x' \(.*broken_part\.py:1\)$"),
        ("a = 1\nb = a / 0\n", r"ZeroDivisionError: division by zero \(.*broken_part\.py:2\)$"),
        ("a = (\n", r"SyntaxError: '\(' was never closed \(broken_part\.py, line 1\)$"),
    ],
)  # fmt: skip
def test_a_module_that_fails_is_reported_with_its_line(tmp_path, monkeypatch, code, message):
    (tmp_path / "broken_part.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with (
        pytest.raises(UsageError, match=f"^module 'broken_part' cannot be imported: .*{message}"),
        user_modules(["broken_part"]),
    ):
        pass


def test_an_end_of_the_program_passes_through_a_users_code():
    for error in (SystemExit(143), KeyboardInterrupt()):  # as signals raise them, anywhere
        with pytest.raises(type(error)), users_code("the part failed"):
            raise error
    message = r"^the part failed: ValueError: two lines \(.*test_registry\.py:\d+\)$"
    with pytest.raises(UsageError, match=message), users_code("the part failed"):
        raise ValueError("two\nlines")
