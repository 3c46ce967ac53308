"""The manifest for Kubernetes: valid against the published schemas, and executed by a small kubelet."""

import importlib.util
import json
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from tests.annexes.clusters.support import RUN, documents
from tests.helpers.command_line import Call, wait_until
from tests.helpers.fake_kubelet import FakeKubelet
from tests.helpers.scenarios import Case

TOKEN = "0123456789abcdef" * 4


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[FakeKubelet]:
    found = FakeKubelet(tmp_path)
    yield found
    found.close()


def test_the_manifest_has_one_secret_service_and_two_jobs(call: Call) -> None:
    ended = call(f"{RUN} --token {TOKEN} --job-name demo --namespace lab")
    assert ended.status == 0
    found = documents(ended.out)
    assert list(found) == [
        ("Secret", "demo-token"), ("Service", "demo-coordinator"), ("Job", "demo-coordinator"), ("Job", "demo-host"),
    ]  # fmt: skip
    assert {each["metadata"]["namespace"] for each in found.values()} == {"lab"}
    hosts = found["Job", "demo-host"]["spec"]
    assert (hosts["completions"], hosts["parallelism"], hosts["completionMode"]) == (6, 6, "Indexed")
    for job in (hosts, found["Job", "demo-coordinator"]["spec"]):
        pod = job["template"]["spec"]
        assert TOKEN not in json.dumps(job), "the token is in a mounted file only"
        assert pod["securityContext"]["runAsNonRoot"]
        for container in pod["containers"]:
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()


@pytest.mark.skipif(importlib.util.find_spec("kubernetes_validate") is None, reason="needs kubernetes-validate")
@pytest.mark.parametrize("version", ["1.27", "1.31"])
def test_the_published_schemas_accept_the_manifest(version: str, call: Call) -> None:
    import kubernetes_validate

    for each in documents(call(RUN).out).values():
        kubernetes_validate.validate(each, version, strict=True)


def test_the_pods_have_the_journal_of_memory(kubelet: FakeKubelet, call: Call) -> None:
    kubelet.apply(call(f"{RUN} --fault crash:42315@2").out)
    kubelet.wait_for_container("testbench-coordinator", "coordinator")
    assert kubelet.job_state("testbench-coordinator") == {"Running": 1}, "it keeps the run directory"
    archive = kubelet.execute("testbench-coordinator", "results", "tar -C /runs -c run")
    with tarfile.open(fileobj=BytesIO(archive)) as fetched:
        assert "run/report.html" in fetched.getnames()
    kubelet.execute("testbench-coordinator", "results", "touch /runs/fetched")
    assert kubelet.wait_for_job("testbench-coordinator") == {"Succeeded": 1}, kubelet.output("testbench-coordinator")
    assert kubelet.wait_for_job("testbench-host") == {"Succeeded": 6}, kubelet.output("testbench-host")
    summary = json.loads((kubelet.folder / "testbench-coordinator/volumes/runs/run/summary.json").read_text())
    assert summary["journal_hash"] == Case("star:5 broadcast edt", "crash:42315@2").summary["journal_hash"]
    assert summary["hosts"] == 6


def test_deleted_hosts_end_the_run_undecided(kubelet: FakeKubelet, call: Call) -> None:
    # Packets that take a second: the hosts wait most of the time.
    flags = (
        "--topology star:3 --collective broadcast --algorithm flood --messages 300 --hosts 3 --clock timed --startup 1s"
    )
    kubelet.apply(call(f"manifest kubernetes {flags}").out)
    wait_until(lambda: "milliseconds" in kubelet.output("testbench-coordinator"), "the first packets")
    kubelet.delete("Job", "testbench-host")
    kubelet.wait_for_container("testbench-coordinator", "coordinator")
    kubelet.execute("testbench-coordinator", "results", "touch /runs/fetched")
    assert kubelet.wait_for_job("testbench-coordinator") == {"Failed": 1}
    assert all(pod.phase != "Running" for pod in kubelet.pods)
