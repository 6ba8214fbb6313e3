"""The engine of Kubernetes, against a server of the tests' own that starts what it is sent, and no cluster."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("lightkube", reason="needs the extra kubernetes")
pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate, which checks the manifests")

import kubernetes_validate
from lightkube.config.kubeconfig import KubeConfig

from quintain.cli.engine import Fleet
from quintain.cli.exits import Usage
from quintain.fleet import POD_FOLDER, KubernetesAddress, Submission, manifests, submit
from quintain.store import Run
from quintain.types import HouseError
from tests.fleet import postgres
from tests.fleet.kube import can_start, kubeconfig, serving, template
from tests.fleet.servers import nats_running
from tests.flow.house import last_json, needs_sandbox, small_set

RUN = Submission(
    name="quintain-run_1", words=("worker", POD_FOLDER, "--apart", "--slots", "8"), workers=2,
    files={"run.json": "{}", "journal.jsonl": ""}, env={"QUINTAIN_QUEUE": "nats://secret@nats:4222/run_1"},
    queue="run_1", kinds=("code", "Terminal Bench"),
)
SCALED = KubernetesAddress.of("kubernetes:house?most=9&monitor=nats:8222")


def test_an_address_names_a_release_and_how_far_it_may_grow() -> None:
    assert KubernetesAddress.of("kubernetes:house?namespace=lab") == KubernetesAddress(release="house", namespace="lab")
    assert (SCALED.most, SCALED.monitor) == (9, "nats:8222")
    for wrong in ("kubernetes:", "kubernetes", "k8s:house", "kubernetes:house?gpus=1", "kubernetes:house?most=9",
                  "kubernetes:house?monitor=nats:8222", "kubernetes:house?most=-1&monitor=nats:8222"):
        with pytest.raises(ValueError, match="expected kubernetes:RELEASE"):
            KubernetesAddress.of(wrong)


def test_what_is_sent_fits_the_schemas_and_keeps_secrets_in_the_secret() -> None:
    made = manifests(RUN, template(["quintain"])["template"], SCALED)
    assert [one["kind"] for one in made] == ["ConfigMap", "Secret", "Deployment", "ScaledObject"]
    for one in made[:3]:
        for version in ("1.30", "1.37"):
            kubernetes_validate.validate(one, version, strict=True)
    assert "secret@nats" not in str([one for one in made if one["kind"] != "Secret"])
    pod = made[2]["spec"]["template"]
    assert pod["metadata"]["labels"]["team"] == "lab", "what the cluster's keeper has put there stays"
    assert pod["spec"]["containers"][0]["args"] == list(RUN.words)
    triggers = made[3]["spec"]["triggers"]
    assert [one["metadata"]["stream"] for one in triggers] == ["run_1-code", "run_1-Terminal=20Bench"]
    assert {one["metadata"]["lagThreshold"] for one in triggers} == {"8"}
    with pytest.raises(HouseError, match="expected one container 'worker'"):
        manifests(RUN, {"spec": {"containers": [{"name": "main"}]}}, SCALED)


def test_a_cluster_that_is_busy_is_asked_again_and_everything_is_taken_away(tmp_path: Path) -> None:
    async def main() -> None:
        with serving(tmp_path, [sys.executable, "-c", "import time; time.sleep(60)"]) as kube:
            kube.failures[:] = [503, 429]
            told, config = asyncio.Event(), KubeConfig.from_file(kubeconfig(tmp_path / "config", kube.url))
            address = KubernetesAddress.of("kubernetes:house")
            still = RUN if not can_start() else Submission(**{**_fields(RUN), "workers": 0})
            async with asyncio.TaskGroup() as group:
                group.create_task(submit(address, still, told=told, config=config))
                async with asyncio.timeout(20):
                    while ("deployments", "quintain-run-1") not in kube.objects:  # noqa: ASYNC110 - as a person would
                        await asyncio.sleep(0.02)
                told.set()
            assert list(kube.objects) == [("podtemplates", "house-worker")]
            assert not kube.pods
            with pytest.raises(HouseError, match="PodTemplate other-worker: podtemplates other-worker not found"):
                await submit(KubernetesAddress.of("kubernetes:other"), RUN, told=told, config=config)

    asyncio.run(main())


def _fields(run: Submission) -> dict[str, object]:
    return {name: getattr(run, name) for name in run.__struct_fields__}


def test_files_of_this_host_are_refused_for_pods() -> None:
    with pytest.raises(Usage, match="workers in pods reach no files of this host"):
        Fleet(engine="kubernetes:house", queue="queue.db").check()
    with pytest.raises(Usage, match="expected kubernetes:RELEASE"):
        Fleet(engine="kubernetes:house?gpus=1", queue="nats://n", register="postgresql://p").check()


@pytest.mark.slow
@needs_sandbox
@pytest.mark.skipif(bool(can_start()), reason=can_start() or "-")
def test_the_same_run_is_played_by_workers_that_a_cluster_keeps(tmp_path: Path) -> None:
    programs = postgres.programs()
    if programs is None:
        pytest.skip("needs PostgreSQL (apt-get install postgresql)")
    pytest.importorskip("psycopg", reason="needs the extra postgres")
    small_set(tmp_path, 2)
    (tmp_path / "pods").mkdir()
    (tmp_path / "nats").mkdir()
    with (
        nats_running(tmp_path / "nats") as nats, postgres.running(programs) as register,
        serving(tmp_path / "pods", [sys.executable, "-m", "quintain"]) as kube,
    ):
        env = {**os.environ, "KUBECONFIG": str(kubeconfig(tmp_path / "config", kube.url))}
        done = subprocess.run(
            [sys.executable, "-m", "quintain", "run", "set", "--policy", "oracle", "-n", "2", "--workers", "2", "--out",
             "first", "--engine", "kubernetes:house", "--queue", nats.url, "--register", register, "--json"],
            cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr + "".join(
            path.read_text() for path in (tmp_path / "pods").glob("*.log"))
        assert (last_json(done)["episodes"], last_json(done)["solved"]) == (4, 4)
        assert list(kube.objects) == [("podtemplates", "house-worker")], "nothing of the run is left in the cluster"
    with Run.open(tmp_path / "first") as run:
        assert len(run.progress().finished) == 4
