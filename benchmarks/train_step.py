"""Time of a training step on CPU: ours against Hugging Face transformers on PyTorch, steps taken in turn.

    python benchmarks/train_step.py --peer-python /path/to/venv/bin/python [--rounds 8]

BERT-small (4 layers, hidden 512, 8 heads, 2048, vocabulary 30522), sequence 128, batch 32, 20 predictions, masked LM and
next sentence, dropout 0.1, gradients clipped to 1.0, float32. All programs are loaded and warm; then each takes one step
in turn, so that what else the machine does hits all alike. A ratio is the median of the ratios of paired steps.

    stock      transformers as it is: logits at all positions, AdamW with default settings
    gathered   transformers, its head applied to the 20 masked positions only, AdamW(fused=True)
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from measure import table

ROOT = Path(__file__).resolve().parents[1]
TARGETS = {"stock": 0.65, "gathered": 1.15}


class Program:
    """One that takes a step for each line that it gets, and answers with its seconds: wall, CPU."""

    def __init__(self, name: str, argv: list[str]):
        self.name = name
        self.start = time.monotonic()
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )

    def step(self) -> tuple[float, float]:
        self._process.stdin.write("step\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.name} ended with exit code {self._process.wait()}")
        wall, cpu = map(float, answer.split())
        return wall, cpu

    def stop(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", required=True, help="interpreter with torch (CPU) and transformers")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--enable_xla", action="store_true", help="compile our step with XLA")
    options = parser.parse_args()
    here = Path(__file__).parent
    programs = [
        Program("ours", [sys.executable, str(here / "train_step_ours.py"), *["--enable_xla"] * options.enable_xla])
    ]
    programs += [Program(name, [options.peer_python, str(here / "train_step_peer.py"), name]) for name in TARGETS]
    for program in programs:
        first, _ = program.step()
        print(f"{program.name}: first step {first:.1f} s, {time.monotonic() - program.start:.1f} s after the start")
        program.step()
    seconds: dict[str, list[tuple[float, float]]] = {program.name: [] for program in programs}
    for _ in range(options.rounds):
        for program in programs:
            seconds[program.name].append(program.step())
    for program in programs:
        program.stop()
    rows = []
    for name, steps in seconds.items():
        wall, cpu = ([step[i] for step in steps] for i in (0, 1))
        target = f"<= {TARGETS[name]}" if name in TARGETS else ""
        ratios = [_ratio(seconds["ours"], steps, i) for i in (0, 1)]
        rows.append(
            [
                name,
                f"{statistics.median(wall):.2f}",
                f"{min(wall):.2f}",
                f"{statistics.median(cpu):.2f}",
                *ratios,
                target,
            ]
        )
    print(table(["program", "s/step", "fastest", "CPU s", "ours / it (range)", "the same of CPU", "target"], rows))


def _ratio(ours, peer, index: int) -> str:
    """Median and range of the ratios of paired steps."""
    ratios = [mine[index] / other[index] for mine, other in zip(ours, peer, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


if __name__ == "__main__":
    main()
