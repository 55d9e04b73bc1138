"""What the tests of the training loop share: small configurations, runs in their own processes, lines of metrics."""

import json
import os
import pickle
import subprocess
from dataclasses import replace
from pathlib import Path

from pretrain.registry import ENCODERS, OPTIMIZERS, SCHEDULES, WARMUPS
from pretrain.settings.data_section import DataConfig, EvalDataConfig
from pretrain.settings.fields import Choice
from pretrain.settings.schema import ExperimentConfig, ModelConfig, RuntimeConfig
from pretrain.settings.trainer_section import OptimizationConfig, TrainerConfig
from tests import warm_python
from tests.messages import messages

ROOT = Path(__file__).resolve().parents[2]


def tiny(encoder: str = "albert", dropout: float = 0.1, **options) -> Choice:
    """An encoder of one layer for 200 pieces and sequences of 32: most of a short run is tracing, which grows with the layers."""
    fields = {
        "vocab_size": 200, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64,
        "max_position_embeddings": 32, "hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout,
    }  # fmt: skip
    if encoder == "albert":
        fields["embedding_size"] = 16
    return Choice(encoder, ENCODERS.get(encoder).config_class(**fields | options))


def experiment(
    path,
    *,
    eval_path="",
    encoder=None,
    batch_size=16,
    data=None,
    eval_data=None,
    trainer=None,
    runtime=None,
    task=None,
    optimizer=None,
    learning_rate=1e-3,
    warmup_steps=None,
) -> ExperimentConfig:
    """Pretraining on the records at `path`; the dictionaries are fields of the sections."""
    from pretrain.tasks.pretraining import PretrainingConfig

    optimization = OptimizationConfig(
        Choice("adamw", OPTIMIZERS.get("adamw").config_class(**optimizer or {})),
        Choice("polynomial", SCHEDULES.get("polynomial").config_class(initial_learning_rate=learning_rate)),
        # A third of the run, whose length tests change: 2 of 6 steps.
        Choice("linear", WARMUPS.get("linear").config_class(warmup_steps=warmup_steps, warmup_proportion=0.34)),
    )
    return ExperimentConfig(
        task=PretrainingConfig(
            model=ModelConfig(encoder or tiny()),
            train_data=DataConfig(input_path=str(path), global_batch_size=batch_size, **data or {}),
            validation_data=EvalDataConfig(input_path=str(eval_path), global_batch_size=batch_size, **eval_data or {}),
            **task or {},
        ),
        trainer=TrainerConfig(
            **{"optimizer_config": optimization, "train_steps": 6, "summary_interval": 1, "steps_per_loop": 1}
            | (trainer or {})
        ),
        runtime=RuntimeConfig(**runtime or {}),
    )


def run(config, model_dir, mode="train") -> list[str]:
    """Runs an experiment here; returns what it said."""
    from pretrain.training import run_experiment

    with messages() as said:
        run_experiment(config, model_dir, mode)
    return said


def lines(model_dir, split="train") -> list[dict]:
    """The lines of metrics.jsonl of one split."""
    text = Path(model_dir, "metrics.jsonl").read_text()
    return [line for line in map(json.loads, text.splitlines()) if line["split"] == split]


def curve(model_dir) -> dict[int, tuple]:
    """step -> (loss, learning rate, digest) of every train line."""
    return {
        line["step"]: (line.get("loss"), line.get("learning_rate"), line.get("example_digest"))
        for line in lines(model_dir)
    }


def process(*jobs, cores: int | None = None, file_size: int | None = None, **environment) -> subprocess.Popen:
    """Runs experiments, (config, model_dir, mode) each, in its own process, which exits as the command would.

    Args:
      cores: CPU cores that it may use.
      file_size: largest file in bytes that it may write: a full disk.
    """
    limit = f"import os; os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:{cores}])\n" if cores else ""
    if file_size:
        limit += f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({file_size}, {file_size}))\n"
    code = limit + (
        "import pickle, sys\n"
        "from nlpdata.cli.messages import on_standard_error\n"
        "from nlpdata.errors import NlpdataError\n"
        "from pretrain.training import run_experiment\n"
        "try:\n"
        "    with on_standard_error():\n"
        "        for job in pickle.loads(sys.stdin.buffer.read()):\n"
        "            run_experiment(*job)\n"
        "except NlpdataError as error:\n"
        "    print(f'error: {error}')\n"
        "    sys.exit(error.exit_code)\n"
    )
    started = warm_python.Process(
        [*warm_python.COMMAND, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", **environment},
    )
    started.stdin.write(pickle.dumps([(config, str(model_dir), mode) for config, model_dir, mode in jobs]))
    started.stdin.close()
    started.stdin = None
    return started


def finish(started: subprocess.Popen, timeout: float = 600) -> tuple[int, str]:
    """(exit code, all it printed)."""
    output, _ = started.communicate(timeout=timeout)
    return started.returncode, output.decode()


def max_difference(a: dict[int, tuple], b: dict[int, tuple]) -> float:
    """Largest difference of the losses of two curves over the same steps."""
    assert a.keys() == b.keys()
    return max(abs(a[step][0] - b[step][0]) for step in a)


def changed(config: ExperimentConfig, section: str, **fields) -> ExperimentConfig:
    """The configuration with other fields in one section: trainer, runtime, task, task.train_data, ..."""
    head, _, rest = section.partition(".")
    if rest:
        part = getattr(config, head)
        return replace(config, **{head: replace(part, **{rest: replace(getattr(part, rest), **fields)})})
    return replace(config, **{head: replace(getattr(config, head), **fields)})
