"""Hosts and replicas, without a framework."""

import contextlib
import json
import socket
import threading

import pytest

from nlpdata.errors import DataError, UsageError
from pretrain.settings.schema import RuntimeConfig
from pretrain.training.engines import lost_hosts, meeting
from pretrain.training.engines.cluster import (
    Cluster,
    chosen_strategy,
    count_replicas,
    declared_replicas,
    is_chief,
    refuse_unequal_hosts,
    report_unused_cluster,
)
from pretrain.training.engines.xla_flags import flags_of_hosts
from tests.messages import messages
from tests.ports import free_ports
from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("asked", "accelerators", "expected", "message"),
    [
        (None, 0, 1, "no GPU found; mirrored over 1 logical CPU device"),
        (3, 0, 3, "no GPU found; mirrored over 3 logical CPU devices"),
        (None, 4, 4, "4 of 4 GPUs, mirrored"),
        (2, 4, 2, "2 of 4 GPUs, mirrored"),
        (4, 4, 4, "4 of 4 GPUs, mirrored"),
    ],
)
def test_replicas_of_a_mirrored_run(asked, accelerators, expected, message):
    with messages() as said:
        assert count_replicas(RuntimeConfig(num_replicas=asked), accelerators, "GPUs") == expected
    assert said == [f"devices: {message}"]


def test_too_many_replicas_are_refused():
    with pytest.raises(UsageError, match=r"num_replicas is 5, but there are 4 GPUs\. Use 4 or less"):
        count_replicas(RuntimeConfig(num_replicas=5), 4, "GPUs")
    with pytest.raises(UsageError, match=r"num_replicas is 2, but distribution_strategy one_device uses one device"):
        declared_replicas(RuntimeConfig(distribution_strategy="one_device", num_replicas=2))


def test_one_process_of_a_cluster_writes_files():
    runtime = RuntimeConfig(distribution_strategy="multi_worker_mirrored")
    for task, expected in ((("chief", 0), True), (("worker", 0), False), (("worker", 1), False)):
        cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
        described = {"cluster": cluster, "task": {"type": task[0], "index": task[1]}}
        assert is_chief(runtime, {"TF_CONFIG": json.dumps(described)}) == expected
        assert is_chief(RuntimeConfig(distribution_strategy="mirrored"), {"TF_CONFIG": json.dumps(described)})
    with pytest.raises(UsageError, match="TF_CONFIG"):
        is_chief(runtime, {})
    for index in (-1, 2):  # of two hosts
        described = {"cluster": {"worker": ["b:1", "c:1"]}, "task": {"type": "worker", "index": index}}
        with pytest.raises(UsageError, match="TF_CONFIG"):
            is_chief(runtime, {"TF_CONFIG": json.dumps(described)})


def connected(port):
    """A connection to what listens there, once something does."""
    found = []

    def connect():
        with contextlib.suppress(ConnectionRefusedError):
            found.append(socket.create_connection(("localhost", port)))
        return found

    assert wait_until(connect)
    return found[0]


def test_hosts_meet_and_missing_ones_are_named(monkeypatch):
    monkeypatch.setattr(meeting, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(meeting, "_SILENT_SECONDS", 0.1)
    (port,) = free_ports(1)
    hosts = [f"localhost:{port}", "second:1", "third:1"]
    with (
        socket.create_server(("localhost", port)),
        pytest.raises(DataError, match=r"host 1 of TF_CONFIG has not met all others at localhost:\d+, .* within 1s"),
    ):
        meeting.meet(Cluster(hosts, 1), 0.2, {})  # who listens there says nothing
    ended = []

    def meet(index):
        meeting.meet(Cluster(hosts, index), 60, {"steps": 3})
        ended.append(index)

    missing = r"these have not come within 1s \(runtime\.host_timeout\): 1 \(second:1\), 2 \(third:1\)"
    with pytest.raises(DataError, match=missing):
        meeting.meet(Cluster(hosts, 0), 0.1, {})
    threads = [threading.Thread(target=meet, args=[index]) for index in (2, 0, 1)]
    for thread in threads[:2]:
        thread.start()
    for said in (b"GET / HTTP/1.1\r\n", b""):  # neither is a host in time
        with connected(port) as other:
            other.sendall(said)
            assert other.recv(1) == b""
    threads[0].join(0.2)
    assert ended == []
    threads[2].start()
    for thread in threads:
        thread.join(60)
    assert sorted(ended) == [0, 1, 2]
    with socket.create_server(("localhost", port)):  # is free again
        pass
    with socket.create_server(("", port)), pytest.raises(UsageError, match=r"cannot listen at localhost:\d+"):
        meeting.meet(Cluster(hosts, 0), 60, {})


def test_hosts_that_were_started_differently_are_refused_on_each(monkeypatch):
    monkeypatch.setattr(meeting, "_POLL_SECONDS", 0.02)
    hosts = [f"localhost:{free_ports(1)[0]}", "second:1", "third:1"]
    given = [{"trainer": {"train_steps": steps}, "step": (0,), "names": ["a" * 9000]} for steps in (3, 6, 3)]
    given[2]["names"] = []
    refused = {}

    def meet(index):
        try:
            meeting.meet(Cluster(hosts, index), 60, given[index])
        except UsageError as error:
            refused[index] = str(error)

    threads = [threading.Thread(target=meet, args=[index]) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(refused) == [0, 1, 2]
    (message,) = set(refused.values())
    assert len(message) < 1000
    for part in ("were not started alike: ", "trainer.train_steps: 3 -> 6 (hosts 0, 1)", "names: "):
        assert part in message


def test_what_would_make_hosts_compile_other_steps_is_compared(tmp_path):
    refuse_unequal_hosts([2, 2])
    with pytest.raises(UsageError, match=r"different numbers of devices \(host 0: 2, host 1: 1\)"):
        refuse_unequal_hosts([2, 1])
    given = "--xla_a=1 --xla_dump_to=/host1 --xla_b --xla_a=2"
    (tmp_path / "flags").write_text(given.replace(" ", "\n"))
    for text in (given, str(tmp_path / "flags")):
        assert flags_of_hosts({"XLA_FLAGS": text}) == {"xla_a": "2", "xla_b": "true"}
    assert flags_of_hosts({}) == flags_of_hosts({"XLA_FLAGS": str(tmp_path / "none")}) == {}


def test_the_strategy_is_chosen_by_its_name():
    strategies = {"off": lambda runtime: "one", "mirrored": lambda runtime: runtime.num_replicas}
    runtime = RuntimeConfig(distribution_strategy="mirrored", num_replicas=2)
    assert chosen_strategy(runtime, strategies) == 2
    with pytest.raises(UsageError, match=r"distribution_strategy is 'ring', expected one of mirrored, off"):
        chosen_strategy(RuntimeConfig(distribution_strategy="ring"), strategies)


@pytest.mark.parametrize(("environment", "count"), [({}, 0), ({"TF_CONFIG": "{}"}, 1)])
def test_a_cluster_that_is_not_used_is_reported(environment, count):
    with messages() as said:
        report_unused_cluster(environment)
    assert len(said) == count


OF_TENSORFLOW = """Graph execution error:

Detected at node CollectiveReduceV2 defined at (most recent call last):
  File "pretrain/run.py", line 76, in main

  File "pretrain/training/engines/tensorflow_engine.py", line 150, in _step_on_all

Collective ops is aborted by: Error reported from /job:worker/task:1: The following tasks are unhealthy:
/job:worker/replica:0/task:1
The tasks have crashed. Check the task logs for an earlier error, or scheduler events (e.g. preemption, eviction) to debug further.
\t [[{{node CollectiveReduceV2}}]] [Op:__inference__step_on_all_4252]."""


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("UNKNOWN: Gloo failed: [pair.cc:538] Read error [127.0.0.1]:426: Connection reset by peer", ...),
        (OF_TENSORFLOW, "Collective ops is aborted by: Error reported from /job:worker/task:1: The following tasks are unhealthy: "
         "/job:worker/replica:0/task:1 The tasks have crashed"),
    ],
)  # fmt: skip
def test_the_reason_of_a_lost_host_is_quoted_alone(said, reason, monkeypatch):
    monkeypatch.setattr(lost_hosts, "_is_alone", False)
    runtime = RuntimeConfig(distribution_strategy="multi_worker_mirrored")
    with pytest.raises(DataError) as caught, lost_hosts.told_of_lost_hosts(runtime):
        raise RuntimeError(said)
    assert f" cannot be reached ({said if reason is ... else reason}). See what it said" in str(caught.value)


@pytest.mark.parametrize("strategy", ["multi_worker_mirrored", "mirrored"])
@pytest.mark.parametrize("said", ["Gloo AllGather failed: Connection reset by peer", "a shape is wrong"])
def test_only_errors_of_lost_hosts_are_taken_for_them(strategy, said, monkeypatch):
    monkeypatch.setattr(lost_hosts, "_is_alone", False)  # else this process would leave without the end of the tests
    is_lost = strategy == "multi_worker_mirrored" and "Gloo" in said
    with (
        pytest.raises(DataError if is_lost else ValueError, match=said),
        lost_hosts.told_of_lost_hosts(RuntimeConfig(distribution_strategy=strategy)),
    ):
        raise ValueError(said)
