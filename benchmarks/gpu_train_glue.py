"""The stage `glue` of gpu_train.py: fine-tuning from the same weights on the same records, ours and transformers', seed by seed.

Ours is pretrain.glue on JAX with benchmarks/minilm_glue.yaml, in bfloat16; the peer gpu_train_glue_peer.py, in autocast to it. A
process a task and variant, all at once on the card. A variant changes one thing, for CoLA alone.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
METRICS = {"mrpc": "accuracy", "rte": "accuracy", "cola": "matthews_corrcoef", "stsb": "pearson"}
BELOW = 0.01  # how far our mean may be below the peer's
OURS = {  # variant -> overrides; the first is the comparison, the others are for CoLA
    "ours": "",
    "ours, float32": "runtime.mixed_precision_dtype=float32",
    "ours, last batch kept": "task.train_data.drop_remainder=false",
}
PEERS = {"peer": [], "peer, float32": ["--float32"], "peer, last batch dropped": ["--drop_last"]}
VARIED = "cola"


def glue(weights: str, data: str, folder: str, seeds: int) -> None:
    """Prints the scores of every seed, means, and whether ours are high enough."""
    work = Path(folder)
    _make_records(weights, data, work)
    jobs = [("ours", name, task) for name in OURS for task in METRICS if name == "ours" or task == VARIED]
    jobs += [("peer", name, task) for name in PEERS for task in METRICS if name == "peer" or task == VARIED]

    def start(job):
        who, name, task = job
        run = _ours if who == "ours" else _peer
        begun = time.time()
        values = run(name, task, weights, data, work, seeds)
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        listed = " ".join(f"{value:.4f}" for value in values)
        mean = f"mean {statistics.fmean(values):.4f}, deviation {spread:.4f}"
        print(f"  {task:<5} {name:<24} {mean}: {listed} ({time.time() - begun:.0f} s)", flush=True)
        return values

    with ThreadPoolExecutor(len(jobs)) as pool:
        futures = {(name, task): pool.submit(start, (who, name, task)) for who, name, task in jobs}
    scores = {job: future.result() for job, future in futures.items()}
    for task in METRICS:
        ours, theirs = (statistics.fmean(scores[name, task]) for name in ("ours", "peer"))
        verdict = "" if ours >= theirs - BELOW else "  MISSED"
        print(f"  {task}: ours {ours:.4f}, peer {theirs:.4f}, difference {ours - theirs:+.4f}{verdict}", flush=True)


def _environment() -> dict:
    paths = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"KERAS_BACKEND": "jax", "PYTHONPATH": os.pathsep.join(paths), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    return {**os.environ, **own, "OMP_NUM_THREADS": "1"}


def _run(command: list[str]) -> str:
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def _make_records(weights: str, data: str, work: Path) -> None:
    code = (
        "import sys\n"
        "from pretrain.converters.same_tokenizer import own_tokenizer\n"
        "from pretrain.sweeps.glue import GlueOptions, make_records\n"
        "weights, data, output, *tasks = sys.argv[1:]\n"
        "options = GlueOptions(init_checkpoint=weights, input=data, output=output)\n"
        "for task in tasks: make_records(options, task, ['train', 'dev'], own_tokenizer(weights, None, False))\n"
    )
    _run([sys.executable, "-c", code, weights, data, str(work), *METRICS])


def _ours(name: str, task: str, weights: str, data: str, work: Path, seeds: int) -> list[float]:
    output = work / f"{name}-{task}".replace(", ", "-").replace(" ", "_")
    output.mkdir(parents=True, exist_ok=True)
    if not (output / "records").exists():
        (output / "records").symlink_to((work / "records").resolve())
    overrides = [
        "runtime.mixed_precision_dtype=bfloat16,runtime.distribution_strategy=one_device,trainer.tensorboard=false"
    ]
    overrides += [
        "trainer.checkpoint_interval=1000000,trainer.validation_interval=1000000",
        *filter(None, [OURS[name]]),
    ]
    command = [
        sys.executable,
        "-m",
        "pretrain.glue",
        "--init_checkpoint",
        weights,
        "--input",
        data,
        "--output",
        str(output),
    ]
    command += [
        "--tasks",
        task,
        "--seeds",
        str(seeds),
        "--config_file",
        str(HERE / "minilm_glue.yaml"),
        "--backend",
        "jax",
    ]
    _run([*command, *(f"--params_override={each}" for each in overrides)])
    runs = json.loads((output / "glue.json").read_text())["runs"]
    return [runs[f"{task}/seed-{seed}"][METRICS[task]] for seed in range(seeds)]


def _peer(name: str, task: str, weights: str, data: str, work: Path, seeds: int) -> list[float]:
    command = [
        sys.executable,
        str(HERE / "gpu_train_glue_peer.py"),
        weights,
        str(work / "records" / task),
        task,
        str(seeds),
    ]
    return json.loads(_run([*command, *PEERS[name]]).splitlines()[-1])
