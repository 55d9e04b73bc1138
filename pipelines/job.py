"""The job that a dry run shows: the graph and the workers that a Beam runner would receive, built offline."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import GoogleCloudOptions, SetupOptions, WorkerOptions
from apache_beam.runners.pipeline_utils import validate_pipeline_graph
from apache_beam.transforms.environments import DockerEnvironment

from pipelines.runner import Runner


def describe_job(runner: Runner, build: Callable[[beam.Pipeline], object]) -> dict:
    """The job as JSON-able values: name, place, workers, container, and the transforms of the graph in order.

    The graph is Beam's portable one, checked by Beam's own validation; nothing is submitted, looked up or downloaded.
    """
    with runner.pipeline(units=1, offline=True) as pipeline:
        options = pipeline.options
        build(pipeline)
        image = options.view_as(WorkerOptions).sdk_container_image
        container = DockerEnvironment.from_container_image(image or DockerEnvironment.default_docker_image())
        proto = pipeline.to_runner_api(default_environment=container)
    validate_pipeline_graph(proto)
    place, workers, setup = (options.view_as(view) for view in (GoogleCloudOptions, WorkerOptions, SetupOptions))
    return {
        "runner": runner.name,
        "job_name": place.job_name,
        "project": place.project,
        "region": place.region,
        "temp_location": place.temp_location,
        "staging_location": place.staging_location,
        "workers": {
            "num_workers": workers.num_workers,
            "max_num_workers": workers.max_num_workers,
            "machine_type": workers.machine_type,
            "disk_size_gb": workers.disk_size_gb,
            "autoscaling_algorithm": workers.autoscaling_algorithm,
            "sdk_container_image": container.container_image,
            "extra_packages": setup.extra_packages,
        },
        "transforms": list(_transforms(proto.components.transforms, proto.root_transform_ids)),
        "payload_bytes": proto.ByteSize(),
    }


def _transforms(transforms: Any, ids: Iterable[str]) -> Iterator[dict]:
    """The leaves of the graph: name, kind, inputs and outputs (ids of collections)."""
    for key in ids:
        transform = transforms[key]
        if transform.subtransforms:
            yield from _transforms(transforms, transform.subtransforms)
        elif transform.spec.urn:
            yield {
                "name": transform.unique_name,
                "kind": transform.spec.urn,
                "inputs": sorted(transform.inputs.values()),
                "outputs": sorted(transform.outputs.values()),
            }
