"""Registries: a name and "module:attribute", imported when first asked for. A new part is one file and one line.

ENCODERS.get("albert")            the class AlbertEncoder; its attribute `config_class` is the dataclass of its options
ENCODERS.get("albrt")             UsageError that names the closest entries
ENCODERS.get("my.module:Encoder") a user's own part, without registering it

Names that lie in a checkpoint or in a run's files are data: they go through `ENCODERS.check_stored(name)` first, which lets
registered names pass, and those of modules that the user has named in this call (`user_modules`).

A part's options are the dataclass in its attribute `config_class`. So that reading a configuration needs no Keras, which
takes seconds to import, the built-in parts also name that dataclass in a module of its own (`configs`).
"""

import contextlib
import importlib
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import is_dataclass
from difflib import get_close_matches

from nlpdata.errors import UsageError

_named: ContextVar[frozenset[str]] = ContextVar("modules that the user has named", default=frozenset())


@contextlib.contextmanager
def user_modules(names: Iterable[str]) -> Iterator[None]:
    """Imports a user's modules, which may register parts; while the context lasts, stored names of their parts are accepted.

    Args:
      names: dotted names; one may hold several, separated by commas.

    UsageError where one cannot be imported.
    """
    modules = [part.strip() for name in names for part in name.split(",") if part.strip()]
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # it is the user's code: whatever it raises
            raise UsageError(
                f"module {module!r} cannot be imported: {type(error).__name__}: {error}. Give its dotted name, e.g. "
                "--import_module my_parts, with its folder on the import path (PYTHONPATH)."
            ) from None
    token = _named.set(_named.get() | set(modules))
    try:
        yield
    finally:
        _named.reset(token)


class Registry:
    """Named parts of one kind.

    Args:
      kind: what the parts are, for messages, e.g. "encoder".
      entries: name -> "module:attribute".
      configs: name -> "module:attribute" of the dataclass of its options, where that is lighter to import than the part.
    """

    def __init__(self, kind: str, entries: dict[str, str], configs: dict[str, str] | None = None):
        self.kind = kind
        self._entries = dict(entries)
        self._configs = dict(configs or {})

    def names(self) -> list[str]:
        return sorted(self._entries)

    def register(self, name: str, target: str) -> None:
        """Adds a part; a name that is taken by another target is a ValueError."""
        if self._entries.get(name, target) != target:
            raise ValueError(f"{self.kind} {name!r} is already {self._entries[name]!r}, not {target!r}")
        self._entries[name] = target

    def get(self, name: str):
        """The part of that name, or at that "module:attribute"."""
        target = self._entries.get(name, name if ":" in name else None)
        if target is None:
            close = get_close_matches(name, self._entries, 3, 0.5)
            raise UsageError(
                f"unknown {self.kind} {name!r}."
                + (f" Closest: {', '.join(close)}." if close else "")
                + f" Known: {', '.join(self.names())}; or name your own as module:attribute."
            )
        try:
            return _import(target)
        except (ModuleNotFoundError, AttributeError) as error:
            if name in self._entries:
                raise
            raise UsageError(
                f"{self.kind} {name!r} cannot be imported: {error}. It must be module:attribute, with the module on the "
                "import path (PYTHONPATH)."
            ) from None

    def check_stored(self, name: str) -> None:
        """UsageError for a name that a file gives, unless it is registered or of a module that the user has named."""
        module, colon, _ = name.partition(":")
        if name in self._entries or (colon and module in _named.get()):
            return
        if colon:
            raise UsageError(
                f"{self.kind} {name!r} is not part of this program, and what a checkpoint names is not imported by itself. If it "
                f"is yours, or you trust it, name its module: --import_module {module} (in Python: import_modules=[{module!r}])."
            )
        raise UsageError(
            f"unknown {self.kind} {name!r}. Known: {', '.join(self.names())}. A module of yours that registers it is named by "
            "--import_module (in Python: import_modules=[...])."
        )

    def has_light_options(self, name: str) -> bool:
        """Whether the options of the part of that name are read without importing the part."""
        return name in self._configs

    def config_class(self, name: str) -> type:
        """The dataclass of the options of the part of that name."""
        if name in self._configs:
            return _import(self._configs[name])
        part = self.get(name)
        if not is_dataclass(getattr(part, "config_class", None)):
            raise UsageError(
                f"{self.kind} {name!r} declares no options: give it an attribute `config_class`, a dataclass, e.g. "
                "`config_class = MyConfig`."
            )
        return part.config_class


def _import(target: str):
    module, attribute = target.split(":", 1)
    return getattr(importlib.import_module(module), attribute)


ENCODERS = Registry(
    "encoder",
    {
        "albert": "pretrain.encoders.albert:AlbertEncoder",
        "bert": "pretrain.encoders.bert:BertEncoder",
        "mobilebert": "pretrain.encoders.mobilebert:MobileBertEncoder",
    },
    {
        "albert": "pretrain.encoders.configs:AlbertConfig",
        "bert": "pretrain.encoders.configs:BertConfig",
        "mobilebert": "pretrain.encoders.configs:MobileBertConfig",
    },
)
TASKS = Registry(
    "task",
    {
        "pretraining": "pretrain.tasks.pretraining:PretrainingTask",
        "question_answering": "pretrain.tasks.question_answering:QuestionAnsweringTask",
        "sentence_prediction": "pretrain.tasks.sentence_prediction:SentencePredictionTask",
    },
    {
        "pretraining": "pretrain.tasks.configs:PretrainingConfig",
        "question_answering": "pretrain.tasks.configs:QuestionAnsweringConfig",
        "sentence_prediction": "pretrain.tasks.configs:SentencePredictionConfig",
    },
)
OPTIMIZERS = Registry(
    "optimizer",
    {"adamw": "pretrain.optimizers.adamw:AdamW", "lamb": "pretrain.optimizers.lamb:Lamb"},
    {"adamw": "pretrain.optimizers.configs:AdamWConfig", "lamb": "pretrain.optimizers.configs:LambConfig"},
)
SCHEDULES = Registry(
    "learning rate",
    {
        "constant": "pretrain.optimizers.schedules:Constant",
        "polynomial": "pretrain.optimizers.schedules:Polynomial",
    },
    {
        "constant": "pretrain.optimizers.configs:ConstantConfig",
        "polynomial": "pretrain.optimizers.configs:PolynomialConfig",
    },
)
WARMUPS = Registry(
    "warm-up",
    {
        "linear": "pretrain.optimizers.schedules:LinearWarmup",
        "polynomial": "pretrain.optimizers.schedules:PolynomialWarmup",
    },
    {
        "linear": "pretrain.optimizers.configs:LinearWarmupConfig",
        "polynomial": "pretrain.optimizers.configs:PolynomialWarmupConfig",
    },
)
TRAINERS = Registry("trainer", {"default": "pretrain.training.trainer:Trainer"})
ENGINES = Registry(
    "backend",
    {
        "jax": "pretrain.training.jax_engine:JaxEngine",
        "tensorflow": "pretrain.training.tensorflow_engine:TensorFlowEngine",
    },
)
CHECKPOINT_FORMATS = Registry(
    "checkpoint format",
    {
        "h5": "pretrain.converters.keras_h5:read",
        "hugging_face": "pretrain.converters.hugging_face:read",
        "native": "pretrain.converters.native:read",
        "tensorflow": "pretrain.converters.tensorflow_checkpoint:read",
    },
)
CHECKPOINT_WRITERS = Registry(
    "format",
    {
        "h5": "pretrain.converters.keras_h5:write",
        "hf": "pretrain.converters.hugging_face:write",
        "hub": "pretrain.converters.saved_model:write_hub",
        "native": "pretrain.converters.native:write_model",
        "savedmodel": "pretrain.converters.saved_model:write",
        "tf1": "pretrain.converters.tensorflow_checkpoint:write",
    },
)
EXPERIMENTS = Registry(
    "experiment",
    {
        "albert/pretraining": "pretrain.experiments.pretraining:albert_pretraining",
        "bert/local": "pretrain.experiments.pretraining:bert_local",
        "albert/sentence_prediction": "pretrain.experiments.finetuning:albert_sentence_prediction",
        "bert/pretraining": "pretrain.experiments.pretraining:bert_pretraining",
        "bert/sentence_prediction": "pretrain.experiments.finetuning:bert_sentence_prediction",
        "albert/squad": "pretrain.experiments.finetuning:albert_squad",
        "bert/squad": "pretrain.experiments.finetuning:bert_squad",
    },
)
