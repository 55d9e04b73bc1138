"""In what order a step on several GPUs computes and sums its gradients, without a GPU: JAX compiles for cards that are not there.

    python benchmarks/gpu_schedule.py [--devices 2] [--layers 12] [--xla_flags=--xla_gpu_...]

Needs Python with JAX for CUDA (`pip install 'jax[cuda13]'`), on any machine. BERT-base, batch 256 x 128 a card, bf16, the fast
path. Prints the ops of the compiled step that are of interest, each with its place in the order of its launches: the sums of
gradients over the cards, which two cards exchange, where each begins and where it is waited for, and the matrix products of each
layer's backward pass. What it does not know is how long they take.
"""

import argparse
import math
import os
import re

H200 = """
gpu_device_info {
  cuda_compute_capability { major: 9 }
  core_count: 132  fpus_per_core: 128  clock_rate_ghz: 1.98
  memory_bandwidth: 4800000000000  device_memory_size: 150000000000  l2_cache_size: 62914560
  threads_per_block_limit: 1024  threads_per_warp: 32  threads_per_core_limit: 2048
  shared_memory_per_block: 49152  shared_memory_per_core: 233472  shared_memory_per_block_optin: 232448
  registers_per_core_limit: 65536  registers_per_block_limit: 65536
  block_dim_limit_x: 2147483647  block_dim_limit_y: 65535  block_dim_limit_z: 65535
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 }
runtime_version { major: 13 }
device_description_str: "NVIDIA H200"
"""
# Kernels are chosen by timing them, which needs a card.
NO_TIMING = "--xla_gpu_autotune_level=0"
_OP = re.compile(r"\s+(?:ROOT )?%?[\w.\-]+ = .*?\s([a-z][\w\-]*)\(")
_NOT_LAUNCHED = {"parameter", "get-tuple-element", "constant", "bitcast", "tuple", "after-all"}


def compiled_step(devices: int, layers: int):
    """The step of BERT-base on H200s, compiled; batch 256 x 128 each."""
    import gpu_train_ours
    import jax
    import numpy as np
    from jax.experimental import topologies
    from jax.sharding import Mesh

    from pretrain.layers.fast_path import FastPath
    from pretrain.registry import ENCODERS
    from pretrain.training.engines.jax_devices import AXIS, Devices

    shape = ENCODERS.config_class("bert")(**gpu_train_ours.SHAPES["bert"], num_hidden_layers=layers)
    task, engine = gpu_train_ours.build("bert", shape)
    batch = gpu_train_ours.make_batch(256 * devices, 128, shape.vocab_size, seed=0)
    denominators = {name: np.float32(value) for name, value in task.denominators(batch).items()}
    state = engine._taken()
    arguments = (state, np.int32(0), batch, denominators, engine._rates(state))
    absent = topologies.get_topology_desc(platform="cuda", target_config=H200, topology=f"1x1x{devices}").devices
    placed = engine._devices = Devices(Mesh(np.array(absent), (AXIS,)))
    shardings = (placed.copied(), placed.copied(), placed.cut(), placed.copied(), placed.copied())
    shapes = [
        jax.tree.map(lambda x, sharding=sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), argument)
        for argument, sharding in zip(arguments, shardings, strict=True)
    ]
    return engine._compile_lazily("train", FastPath(prefix_masks=True)).lower(*shapes).compile()


def launches(text: str) -> list[str]:
    """The lines of a compiled program that launch something, in order."""
    entry = text[text.index("\nENTRY") :].splitlines()
    return [line for line in entry if (found := _OP.match(line)) and found[1] not in _NOT_LAUNCHED]


def described(line: str) -> str | None:
    """A sum or an exchange between the cards, or a matrix product of the backward pass; None: another op."""
    if part := re.search(r"(.*) (all-reduce|collective-permute)-(start|done)\(", line):
        results = part[1].rpartition("), ")[2] if part[3] == "start" else part[1]
        shapes = re.findall(r"[fb]\w*\[([\d,]*)\]", results)
        values = sum(math.prod(map(int, filter(None, shape.split(",")))) for shape in shapes)
        what = "sum" if part[2] == "all-reduce" else "exchange"
        return f"{what}, {values:,} values: {'begins' if part[3] == 'start' else 'is waited for'}"
    layer = re.search(r'op_name="[^"]*transpose\(jvp[^"]*/(layer_\d+/\w+)/', line)
    return layer and f"product of {layer[1]}" if "$lt$matmul" in line else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--xla_flags", default="")
    options = parser.parse_args()
    os.environ |= {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"{NO_TIMING} {options.xla_flags}"}
    compiled = compiled_step(options.devices, options.layers)
    lines = launches(compiled.as_text())
    for place, line in enumerate(lines, 1):
        if what := described(line):
            print(f"{place:5}  {what}")
    size = compiled.memory_analysis().temp_size_in_bytes / 2**30
    print(f"{len(lines)} launches; {size:.2f} GiB for intermediate values")


if __name__ == "__main__":
    main()
