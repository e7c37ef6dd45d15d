"""What a manifest means for a container runtime."""

import pytest

from numalign.apps.agent.runtimes.containers import pull_policy, security_of
from numalign.core.errors import PostponedError
from numalign.wire.grpc.cri_values import Seccomp
from numalign.wire.pods.records import (
    Capabilities,
    ContainerRecord,
    SeccompProfile,
    SecurityContext,
)


@pytest.mark.parametrize(
    ("image", "policy", "wanted"),
    [
        ("web:1", "", "IfNotPresent"),
        ("web", "", "Always"),
        ("web:latest", "", "Always"),
        ("host:5000/web", "", "Always"),
        ("host:5000/web:1", "", "IfNotPresent"),
        ("web@sha256:00", "", "IfNotPresent"),
        ("web:latest@sha256:00", "", "IfNotPresent"),
        ("web", "Never", "Never"),
        ("web:1", "Always", "Always"),
    ],
)
def test_when_an_image_is_pulled(image, policy, wanted):
    assert pull_policy(ContainerRecord("c", image, imagePullPolicy=policy)) == wanted


def test_what_a_container_says_counts_before_what_its_pod_says():
    pods = SecurityContext(
        runAsUser=1000,
        runAsGroup=2000,
        runAsNonRoot=True,
        supplementalGroups=[5],
        fsGroup=6,
        seccompProfile=SeccompProfile("RuntimeDefault"),
    )
    own = SecurityContext(
        privileged=True,
        runAsUser=0,
        runAsNonRoot=False,
        allowPrivilegeEscalation=False,
        readOnlyRootFilesystem=True,
        capabilities=Capabilities(add=["NET_ADMIN"], drop=["ALL"]),
        seccompProfile=SeccompProfile("Unconfined"),
    )
    found = security_of(own, pods, "c")
    assert (found.user, found.group, found.groups) == (0, 2000, (5, 6))
    assert (found.privileged, found.read_only_root, found.no_new_privileges) == (True, True, True)
    assert (found.capabilities_added, found.capabilities_dropped) == (("NET_ADMIN",), ("ALL",))
    assert (found.must_not_be_root, found.seccomp) == (False, Seccomp.UNCONFINED)
    inherited = security_of(None, pods, "c")
    assert (inherited.user, inherited.must_not_be_root) == (1000, True)
    assert inherited.seccomp is Seccomp.RUNTIME_DEFAULT
    assert security_of(None, None, "c").user is None


@pytest.mark.parametrize(
    "asked",
    [
        SecurityContext(seLinuxOptions={"level": "s0"}),
        SecurityContext(appArmorProfile={"type": "Localhost"}),
        SecurityContext(procMount="Unmasked"),
        SecurityContext(seccompProfile=SeccompProfile("Localhost", "x.json")),
    ],
)
def test_what_is_not_handed_on_is_refused_rather_than_left_out(asked):
    for own, pods in ((asked, None), (None, asked)):
        with pytest.raises(PostponedError, match="not run without it") as caught:
            security_of(own, pods, "container c")
        assert caught.value.reason == "CreateContainerConfigError"
