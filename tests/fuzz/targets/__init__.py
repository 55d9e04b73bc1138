"""The targets, a module for each room. A new one is a function of a case, decorated with `target`."""

from importlib import import_module

MODULES = (
    "tables",
    "corpus",
    "raw_documents",
    "tokenizers",
    "records",
    "reports",
    "archives",
    "options",
    "settings",
    "checkpoints",
    "runs",
    "pretrain_options",
)


def load_targets() -> None:
    """Fills tests.fuzz.cases.TARGETS."""
    for name in MODULES:
        import_module(f"tests.fuzz.targets.{name}")
