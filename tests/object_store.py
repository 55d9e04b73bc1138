"""A real S3 server on this machine (moto's), for tests of remote paths."""

import contextlib
import importlib
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile

import pytest

from tests.ports import free_ports
from tests.waiting import wait_until

_PACKAGES = ("s3fs", "boto3", "moto", "flask", "flask_cors")
_SETTINGS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


class ObjectStore:
    """The server's bucket `bucket`, seen by the store's own client rather than by ours."""

    def __init__(self, endpoint: str):
        import boto3

        self.client = boto3.client("s3", endpoint_url=endpoint)
        self.client.create_bucket(Bucket="bucket")

    def put(self, key: str, data: bytes) -> str:
        self.client.put_object(Bucket="bucket", Key=key, Body=data)
        return f"s3://bucket/{key}"

    def contents(self, prefix: str = "") -> dict[str, bytes]:
        """Key without the prefix -> content."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix=prefix)
        keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
        get = self.client.get_object
        return {key.removeprefix(prefix): get(Bucket="bucket", Key=key)["Body"].read() for key in keys}


@contextlib.contextmanager
def running_store():
    """Starts the server, and points every S3 client of this process and its children at it."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)} (pip install '.[dev]')")
    (port,) = free_ports(1)
    endpoint = f"http://127.0.0.1:{port}"
    before = dict(os.environ)
    os.environ.update(_SETTINGS, AWS_ENDPOINT_URL=endpoint)
    argv = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    # What is kept about remote files, and the work on remote outputs, which other servers' may share a name with.
    own, temporary = tempfile.TemporaryDirectory(), tempfile.tempdir
    os.environ["XDG_CACHE_HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = own.name
    with open(os.devnull, "wb") as nothing:
        server = subprocess.Popen(argv, stdout=nothing, stderr=nothing)
    try:
        _await(server, port)
        importlib.import_module("s3fs").S3FileSystem.clear_instance_cache()  # of a server before this one
        yield ObjectStore(endpoint)
    finally:
        server.terminate()
        server.wait()
        own.cleanup()
        tempfile.tempdir = temporary
        os.environ.clear()
        os.environ.update(before)


def _await(server, port: int) -> None:
    def listens() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    wait_until(lambda: listens() or server.poll() is not None)
    if server.poll() is not None or not listens():
        raise RuntimeError(f"the S3 server did not start (exit {server.poll()})")
