"""A job server or scheduler that is not there: one line within seconds, before anything else is done."""

import socket
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from tests.nlpdata.commands import run_command
from tests.pipelines.conftest import arguments

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def silent():
    """A port that takes connections and never says a word."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(20)
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(scope="module")
def another():
    """A server that speaks gRPC, but knows nothing of jobs."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(0)


JOB = "--runner=FlinkRunner", "--job_server_timeout=1", "--job_endpoint="
ANSWERED = "--runner=FlinkRunner", "--job_server_timeout=60", "--job_endpoint="
DASK = "--runner=DaskRunner", "--dask_connection_timeout=1", "--dask_client_address="
REFUSED = {
    "nobody": (JOB, "localhost:1", "no job server answers there: Connection refused (tried for 1 seconds)"),
    "no such host": (JOB, "no.such.host.invalid:8099", "no job server answers there: "),
    "silent": (JOB, None, "no job server answers there: no answer (tried for 1 seconds)"),
    "another server": (ANSWERED, None, "what answers there is not a Beam job server"),
    "no port": (JOB, "localhost", "is not of the form HOST:PORT"),
    "URL": (JOB, "http://localhost:8099", "is not of the form HOST:PORT"),
    "Dask, nobody": (DASK, "localhost:1", "no Dask scheduler answers there: no answer (tried for 1 seconds)"),
    "Dask, silent": (DASK, None, "no Dask scheduler answers there: no answer (tried for 1 seconds)"),
    "Dask, no port": (DASK, "localhost", "missing port number in address 'localhost'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, tmp_path, corpus_folder, tiny_model, capfd, request):
    (runner, bound, option), address, message = REFUSED[name]
    if runner == DASK[0]:
        pytest.importorskip("distributed", reason="needs Dask (pip install '.[dask]')")
    if address is None:
        address = request.getfixturevalue("another" if name == "another server" else "silent")
    more = (runner, "--", bound, f"{option}{address}")
    outcome = run_command(capfd, *arguments(corpus_folder, tmp_path / "out", tiny_model, "sop", None, *more))
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert line.startswith(f"nlpdata: error: {option}{address}".replace("=", " "))
    assert message in line
    assert ". Expected the address of a " in line
    assert not (tmp_path / "out").exists()
