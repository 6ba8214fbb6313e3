"""The Helm chart: what it renders fits the API's schemas, holds its walls, and is what the kept manifests say."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate")
yaml = pytest.importorskip("yaml", reason="needs PyYAML")

HERE = Path(__file__).parent
CHART = HERE.parents[1] / "deploy" / "helm" / "quintain"
CASES = sorted(path.stem for path in (HERE / "values").glob("*.yaml"))
HELM = os.environ.get("QUINTAIN_HELM") or shutil.which("helm")
#: The kinds of extensions, which the API's own schemas do not hold.
FOREIGN = ("ScaledObject",)
needs_helm = pytest.mark.skipif(HELM is None, reason="needs helm (QUINTAIN_HELM names it)")


def rendered(values: Path, *more: str) -> subprocess.CompletedProcess[str]:
    words = [str(HELM), "template", "house", str(CHART), "--namespace", "lab", "-f", str(values), *more]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)


def kept(case: str) -> list[dict[str, Any]]:
    text = (HERE / "rendered" / f"{case}.yaml").read_text()
    return [one for one in yaml.safe_load_all(text) if one is not None]


def pods(case: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The workers' pods: metadata and spec."""
    for one in kept(case):
        found = one.get("template") or one.get("spec", {}).get("template")
        if found is not None and found["spec"]["containers"][0]["name"] == "worker":
            yield found["metadata"], found["spec"]


def of_kind(case: str, kind: str) -> list[dict[str, Any]]:
    return [one for one in kept(case) if one["kind"] == kind]


@needs_helm
@pytest.mark.parametrize("case", CASES)
def test_the_kept_manifests_are_what_the_chart_renders(case: str) -> None:
    done = rendered(HERE / "values" / f"{case}.yaml")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (HERE / "rendered" / f"{case}.yaml").read_text(), (
        f"render it anew: helm template house deploy/helm/quintain -n lab -f tests/deploy/values/{case}.yaml > "
        f"tests/deploy/rendered/{case}.yaml")


@needs_helm
@pytest.mark.parametrize(("more", "told"), [
    (("--set", "sandbox.backend=docker"), "sandbox"),
    (("--set", "worker.slotz=3"), "slotz"),
    (("--set", "networkPolicy.api.cidr="), "networkPolicy.api.cidr is needed"),
    (("--set", "run.definition=x,run.queueName=q,queue.url=nats://n:4222"), "register.url"),
])
def test_values_that_cannot_be_are_refused_by_name(more: tuple[str, ...], told: str) -> None:
    done = rendered(HERE / "values" / "plain.yaml", *more)
    assert done.returncode != 0
    assert told in done.stderr


@pytest.mark.parametrize("version", ["1.31", "1.37"])
@pytest.mark.parametrize("case", CASES)
def test_what_is_rendered_fits_the_schemas_and_holds_no_unknown_field(case: str, version: str) -> None:
    for one in kept(case):
        if one["kind"] not in FOREIGN:
            kubernetes_validate.validate(one, version, strict=True)


def test_a_worker_that_makes_pods_has_no_rights_of_its_own() -> None:
    [(_, spec)] = pods("plain")
    security = spec["containers"][0]["securityContext"]
    assert (security["runAsNonRoot"], security["allowPrivilegeEscalation"], security["readOnlyRootFilesystem"]) == (
        True, False, True)
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert "hostUsers" not in spec
    verbs = {(group, resource): rule["verbs"] for role in of_kind("plain", "Role") for rule in role["rules"]
             for group in rule["apiGroups"] for resource in rule["resources"]}
    assert verbs["", "pods/exec"] == ["create", "get"]
    assert ("", "secrets") not in verbs
    assert not of_kind("whole", "Role"), "who makes no pods is let at nothing"


def test_a_worker_with_namespaces_of_its_own_is_root_in_its_own_user_namespace_only() -> None:
    for _, spec in pods("whole"):
        security = spec["containers"][0]["securityContext"]
        assert spec["hostUsers"] is False
        assert (security["procMount"], "privileged" in security) == ("Unmasked", False)
        assert spec["automountServiceAccountToken"] is False
    [(_, bare)] = pods("privileged")
    assert bare["containers"][0]["securityContext"]["privileged"] is True


@pytest.mark.parametrize("case", CASES)
def test_nothing_comes_in_and_only_what_is_listed_goes_out(case: str) -> None:
    [policy] = of_kind(case, "NetworkPolicy")
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert policy["spec"]["ingress"] == []
    ports = sorted({port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]})
    assert ports == {"plain": [53, 443, 4222, 5432, 8000], "whole": [53, 4222, 5432], "privileged": [53]}[case]
    assert all(rule["to"] for rule in policy["spec"]["egress"]), "a rule without a peer would open everything"
    wanted = policy["spec"]["podSelector"]["matchLabels"].items()
    assert all(wanted <= metadata["labels"].items() for metadata, _ in pods(case)), "the walls are around every worker"


def test_a_pod_has_time_to_drain_and_its_secrets_are_in_no_other_place() -> None:
    for case in CASES:
        for _, spec in pods(case):
            assert spec["terminationGracePeriodSeconds"] >= 45, "a worker drains for half a minute"
    others = [str(one) for one in kept("whole") if one["kind"] != "Secret"]
    assert not any("sk-golden" in text or "q:secret" in text for text in others)


def test_the_run_of_a_release_is_scaled_by_the_streams_that_its_queue_has() -> None:
    [scaled] = of_kind("whole", "ScaledObject")
    assert [(one["metadata"]["stream"], one["metadata"]["consumer"]) for one in scaled["spec"]["triggers"]] == [
        ("mine-code", "p0"), ("mine-code", "p5"), ("mine-shell", "p0"), ("mine-shell", "p5")]
    [deployment] = of_kind("whole", "Deployment")
    assert scaled["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert "replicas" not in deployment["spec"], "two would quarrel about how many"
    [worker] = deployment["spec"]["template"]["spec"]["containers"]
    assert worker["args"] == ["worker", "/var/lib/quintain/run", "--apart", "--slots", "8"]
