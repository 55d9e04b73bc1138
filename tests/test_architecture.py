"""The arrows between packages (DESIGN, rule 1), proved from the imports, and what `import nlpdata` loads."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("nlpdata", "pipelines", "pretrain")
MAY_IMPORT = {"nlpdata": set(), "pipelines": {"nlpdata"}, "pretrain": {"nlpdata"}}

# Inside a package, a part may import its own modules, those on lines above it, and nothing else. A dotted part is a level of
# its own within its room.
LEVELS = {
    "nlpdata": (
        {"errors", "keys", "protobuf"},
        {"registry", "files", "options", "text"},
        {"corpus", "execution", "records"},
        {"tokenizers", "output"},
        {"records.inspection", "records.verification"},
        {"tokenizers.training", "pretraining", "finetuning"},
        {"corpus.splitting"},
        {"reports"},
        {"cli"},
        {"__main__"},
    ),
    "pretrain": (
        # registry names parts of every level, but imports none
        {"registry"},
        {"settings", "layers", "serving"},
        {"optimizers", "encoders"},
        {"converters", "data", "evaluation"},
        {"tasks"},
        {"training.engines"},
        {"prediction", "training"},
        {"sweeps", "jobs"},
        {"convert", "experiments", "export", "glue", "predict", "run", "submit"},
        {"commands"},
        {"__main__"},
    ),
}
LEVEL = {
    (package, part): level for package, levels in LEVELS.items() for level, parts in enumerate(levels) for part in parts
}

# The single exception: nlpdata's command line names pipelines in one lazy registry line, as "module:attribute".
REGISTRY_LINES_TO_PIPELINES = 1

HEAVY = ("apache_beam", "tensorflow", "keras", "tensorflow_datasets", "jax", "torch")
# What Hugging Face's files are read and written without, also where it is installed.
NEVER = {"transformers", "torch", "safetensors", "huggingface_hub", "tokenizers"}
LONGEST_FILE = 430  # lines

# Who may import a heavy package after all, inside a function: importing the module loads none (_PROBE).
MAY_LOAD = {"nlpdata.finetuning.tfds": {"tensorflow_datasets"}}

_LAZY = re.compile(r"(?:nlpdata|pipelines|pretrain)(?:\.\w+)*(?::\w+)?")


@functools.cache
def nodes(source: str) -> list[ast.AST]:
    """The syntax of a module; several tests look at it."""
    return list(ast.walk(ast.parse(source)))


@pytest.fixture(autouse=True, scope="module")
def forgotten():
    """What the tests keep, 100 MB, goes with the last of them."""
    yield
    nodes.cache_clear()


def imported(source: str, module: str) -> set[str]:
    """The modules that `import` statements of `source` name; relative ones are resolved against `module`."""
    names = set()
    for node in nodes(source):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(module.split(".")[: -node.level]) if node.level else ""
            base = ".".join(part for part in (base, node.module) if part)
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names


def lazily_named(source: str) -> list[str]:
    """String literals that name a module of ours: registry lines, arguments of import_module."""
    strings = (node.value for node in nodes(source) if isinstance(node, ast.Constant))
    return [text for text in strings if isinstance(text, str) and _LAZY.fullmatch(text) and "." in text]


def part_of(module: str) -> tuple[str, str]:
    """The package of a module, and its part: the entry in LEVELS with the longest name that fits, else its room."""
    package, _, rest = module.partition(".")
    words = rest.split(".")
    dotted = ".".join(words[:2])
    return package, dotted if (package, dotted) in LEVEL else words[0]


def faults(module: str, names: set[str]) -> list[str]:
    """The imports among `names` that `module` may not make."""
    package, part = part_of(module)
    found = []
    for name in sorted(names):
        target, target_part = part_of(name)
        if target not in PACKAGES or name == module:
            continue
        if target != package:
            if target not in MAY_IMPORT[package]:
                found.append(f"{module} imports {name}: {package} may not know {target}")
        elif (package, part) in LEVEL and (package, target_part) in LEVEL and target_part != part:
            level, target_level = LEVEL[package, part], LEVEL[package, target_part]
            same_level_of_commands = package == "pretrain" and level == target_level == LEVEL["pretrain", "run"]
            if target_level >= level and not same_level_of_commands:
                found.append(f"{module} imports {name}: {package}.{part} may not know {package}.{target_part}")
    return found


def modules() -> dict[str, Path]:
    """Name -> file of every module of the three packages."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            # A package is named with its __init__, so that relative imports resolve alike.
            found[".".join(parts)] = path
    return found


def test_imports_point_one_way():
    found = []
    for module, path in modules().items():
        source = path.read_text(encoding="utf-8")
        lazy = {name.partition(":")[0] for name in lazily_named(source)}
        if module.startswith("nlpdata."):
            lazy = {name for name in lazy if not name.startswith("pipelines.")}  # counted below
        if module == "pretrain.registry":
            lazy = {name for name in lazy if not name.startswith("pretrain.")}
        found += faults(module, imported(source, module) | lazy)
    assert not found, "\n".join(found)


def test_the_libraries_of_hugging_face_are_not_used():
    for module, path in modules().items():
        used = {name.partition(".")[0] for name in imported(path.read_text(encoding="utf-8"), module)}
        assert not used & NEVER, module


def test_nlpdata_reaches_pipelines_through_one_registry_line():
    lines = [
        f"{module}: {name}"
        for module, path in modules().items()
        if module.startswith("nlpdata.")
        for name in lazily_named(path.read_text(encoding="utf-8"))
        if name.startswith("pipelines.")
    ]
    assert len(lines) <= REGISTRY_LINES_TO_PIPELINES, "\n".join(lines)


def test_one_executor():
    """Processes are started by nlpdata.execution.executor's workers alone, which end with their parent."""
    pools = {"multiprocessing", "concurrent"}
    found = [
        f"{module} imports {name}"
        for module, path in modules().items()
        for name in imported(path.read_text(encoding="utf-8"), module)
        if name.partition(".")[0] in pools and module != "nlpdata.execution.worker"
    ]
    assert not found, "\n".join(found)


def is_command(module: str) -> bool:
    """Whether a module is a command of pretrain's, started as `python -m pretrain.NAME`."""
    package, _, part = module.partition(".")
    return package == "pretrain" and LEVEL.get((package, part)) == LEVEL["pretrain", "run"]


def calls(source: str) -> list[ast.Call]:
    return [node for node in nodes(source) if isinstance(node, ast.Call)]


def test_only_commands_print():
    """They print results on standard output; everything else is logged, and takes no function to log with."""
    found = []
    for module, path in modules().items():
        if not module.startswith("pretrain."):
            continue
        source = path.read_text(encoding="utf-8")
        if not is_command(module):
            found += [f"{module}: print" for call in calls(source) if getattr(call.func, "id", "") == "print"]
        elif [call for call in calls(source) for keyword in call.keywords if ast.unparse(keyword) == "file=sys.stderr"]:
            found.append(f"{module}: prints on standard error")
        functions = [node for node in nodes(source) if isinstance(node, ast.FunctionDef)]
        for function in functions:
            arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            found += [f"{module}.{function.name} takes log" for argument in arguments if argument.arg == "log"]
    assert not found, "\n".join(found)


def test_loggers_bear_the_names_of_their_modules():
    """Also that of a command, whose __name__ is __main__ when it is run: the handler would not know it. JAX's have its names."""
    found = []
    for module, path in modules().items():
        for call in calls(path.read_text(encoding="utf-8")):
            if ast.unparse(call.func) == "logging.getLogger" and module.startswith("pretrain."):
                expected = f"'{module}'" if is_command(module) else "__name__"
                name = ast.unparse(call.args[0])
                found += [f"{module}: {ast.unparse(call)}"] if name != expected and not name.startswith("'jax") else []
    assert not found, "\n".join(found)


@pytest.mark.parametrize("package", LEVELS)
def test_every_part_has_its_level(package):
    parts = {part_of(module) for module in modules() if module.startswith(f"{package}.")}
    missing = sorted(part for _, part in parts - LEVEL.keys() if part != "__init__")
    assert not missing, f"add to LEVELS[{package!r}]: {', '.join(missing)}"


@pytest.mark.parametrize(("package", "most"), [("nlpdata", 17), ("pretrain", 26)])
def test_the_root_of_a_package_is_seen_at_a_glance(package, most):
    ignored = {"__init__.py", "__pycache__", "py.typed"}
    entries = {path.name for path in (ROOT / package).iterdir()} - ignored
    assert len(entries) <= most, f"{package}/ has {len(entries)} entries: {', '.join(sorted(entries))}"


@pytest.mark.parametrize(
    ("module", "source", "allowed"),
    [
        ("nlpdata.cli.commands", "import pipelines.pretraining", False),
        ("nlpdata.cli.commands", "from pretrain import data", False),
        ("nlpdata.cli.commands", "from nlpdata.keys import draw\nimport numpy", True),
        ("pipelines.pretraining", "def f():\n    from nlpdata.pretraining.build import build_examples", True),
        ("pipelines.pretraining", "import pretrain", False),
        ("pretrain.data", "import pipelines", False),
        ("pretrain.data", "from nlpdata import open_records", True),
        ("pretrain.encoders.bert", "from pretrain.layers.attention import Attention", True),
        ("pretrain.encoders.bert", "from ..layers import attention", True),
        ("pretrain.layers.attention", "from pretrain.encoders import bert", False),
        ("pretrain.layers.attention", "from ..encoders import bert", False),
        ("pretrain.layers.attention", "from .dropout import Dropout", True),
        ("pretrain.data", "from pretrain.tasks import pretraining", False),
        ("pretrain.run", "from pretrain.experiments import registry", True),
        ("pretrain.training.trainer", "import pretrain.run", False),
    ],
)
def test_the_rule_tells_right_from_wrong(module, source, allowed):
    assert (not faults(module, imported(source, module))) is allowed


def test_nlpdata_imports_no_framework():
    for module, path in modules().items():
        if module.startswith("nlpdata."):
            names = {name.partition(".")[0] for name in imported(path.read_text(encoding="utf-8"), module)}
            assert not names & set(HEAVY) - MAY_LOAD.get(module, set()), module


def test_files_stay_readable():
    lengths = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in modules().items()}
    assert len(lengths) > 20
    assert not {module: length for module, length in lengths.items() if length > LONGEST_FILE}


_PROBE = f"""
import sys

def check(what):
    loaded = [name for name in {HEAVY!r} if name in sys.modules]
    assert not loaded, f"{{what}} loads {{', '.join(loaded)}}"

import nlpdata
check("import nlpdata")
assert "numpy" not in sys.modules, "import nlpdata loads numpy"
import pretrain.tasks.configs
assert "numpy" not in sys.modules, "the configuration of tasks loads numpy"
from nlpdata.cli.commands import main
assert main(["--help"]) == 0
check("nlpdata --help")
for name in nlpdata.__all__:
    assert callable(getattr(nlpdata, name))
    check(f"nlpdata.{{name}}")
import importlib
for name in {list(MAY_LOAD)!r}:
    importlib.import_module(name)
    check(name)
"""


def test_import_and_help_load_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", _PROBE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "create-pretraining" in done.stdout
