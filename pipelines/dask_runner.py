"""Beam's Dask runner, whose collections keep the number of partitions that the first one has.

Without an address it starts a cluster of this machine's cores, which only this machine reaches: Dask's own choice is port 8787
for all networks, with a warning where another cluster has it.

Beam puts the partitions of joined collections one after the other, and a grouping has as many as its input: the records of next
sentence would be in 35 times as many partitions as the text, and each grouping has tasks for all pairs.
"""

from typing import Any

from apache_beam import Pipeline
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.runners.dask import dask_runner
from distributed import LocalCluster

_FREE_PORT = "127.0.0.1:0"


class DaskRunner(dask_runner.DaskRunner):
    """See above."""

    def run_pipeline(self, pipeline: Pipeline, options: PipelineOptions) -> dask_runner.DaskRunnerResult:
        """Starts the pipeline. Where the options name no cluster, it starts one, too.

        That is `client.cluster` of the result, for the caller to close.
        """
        place = options.view_as(dask_runner.DaskOptions)
        if place.address is not None or place.scheduler_file is not None:
            return super().run_pipeline(pipeline, options)
        place.address = cluster = LocalCluster(dashboard_address=_FREE_PORT)
        try:
            return super().run_pipeline(pipeline, options)
        except BaseException:
            cluster.close()
            raise

    @staticmethod
    def to_dask_bag_visitor(bag_kwargs: dict[str, Any] | None = None) -> PipelineVisitor:
        """What makes Dask's bags of a pipeline's transforms; Beam's runner asks for it."""
        return _Visitor(dask_runner.DaskRunner.to_dask_bag_visitor(bag_kwargs))


class _Visitor(PipelineVisitor):
    """Beam's, which makes a bag of each transform, in `bags`."""

    def __init__(self, visitor: Any) -> None:
        self._visitor, self.bags = visitor, visitor.bags

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        self._visitor.visit_transform(transform_node)
        partitions = next(iter(self.bags.values())).npartitions
        bag = self.bags[transform_node]
        if bag.npartitions > partitions:
            self.bags[transform_node] = bag.repartition(npartitions=partitions)
