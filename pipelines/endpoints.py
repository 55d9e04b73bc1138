"""Whether a job server or a scheduler answers where its address leads: asked before a job is built, with a bound.

Beam's own attempts last minutes, and say nothing meanwhile.
"""

import asyncio
import re
import time

import grpc
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

from nlpdata.errors import UsageError

SECONDS = 10.0  # one that has just been started may need some
_PAUSE_SECONDS = 0.5


def check_job_server(endpoint: str, seconds: float = SECONDS) -> None:
    """UsageError where no Beam job server answers at HOST:PORT within `seconds`."""
    if endpoint == "embed":  # Beam's own, in this process
        return
    what = f"--job_endpoint {endpoint}"
    advice = "Expected the address of a Beam job server that runs (Flink's and Spark's listen on port 8099 unless told otherwise)"
    if not re.fullmatch(r"[^/]+:\d{1,5}", endpoint):
        raise UsageError(f"{what} is not of the form HOST:PORT. {advice}")
    stop, reason = time.monotonic() + seconds, "no answer"
    while True:
        error = _refusal(endpoint, max(stop - time.monotonic(), _PAUSE_SECONDS))
        if error is None:
            return
        if error.code() == grpc.StatusCode.UNIMPLEMENTED:
            raise UsageError(f"{what}: what answers there is not a Beam job server. {advice}")
        if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:  # the last attempt may have had too little time
            reason = _reason(error)
        if error.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() + _PAUSE_SECONDS > stop:
            raise UsageError(f"{what}: no job server answers there: {reason} (tried for {seconds:g} seconds). {advice}")
        time.sleep(_PAUSE_SECONDS)


def _refusal(endpoint: str, seconds: float) -> grpc.RpcError | None:
    """Why the question that begins each submission of a job is not answered; None where it is."""
    with grpc.insecure_channel(endpoint) as channel:
        service = beam_job_api_pb2_grpc.JobServiceStub(channel)
        try:
            service.DescribePipelineOptions(beam_job_api_pb2.DescribePipelineOptionsRequest(), timeout=seconds)
        except grpc.RpcError as error:
            return error
    return None


def _reason(error: grpc.RpcError) -> str:
    """The last and innermost of the reasons that gRPC strings together."""
    return str(error.details()).rstrip("]").rpartition(": ")[2]


def check_dask_scheduler(address: str, seconds: float = SECONDS) -> None:
    """UsageError where no Dask scheduler answers at `address`, e.g. tcp://host:8786, within `seconds`."""
    from distributed.comm import connect
    from distributed.security import Security

    async def ask() -> None:
        comm = await connect(address, timeout=seconds, **Security().get_connection_args("client"))
        comm.abort()

    what, advice = (
        f"--dask_client_address {address}",
        "Expected the address of a scheduler that runs, e.g. tcp://host:8786",
    )
    try:
        asyncio.run(asyncio.wait_for(ask(), seconds + 1))  # its own bound does not hold where a server says nothing
    except ValueError as error:
        raise UsageError(f"{what}: {error}. {advice}") from None
    except (OSError, RuntimeError) as error:
        cause = getattr(error.__cause__, "strerror", None) or "no answer"
        raise UsageError(
            f"{what}: no Dask scheduler answers there: {cause} (tried for {seconds:g} seconds). {advice}"
        ) from None
