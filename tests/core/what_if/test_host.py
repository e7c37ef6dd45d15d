"""Changes of the host: one setting of the kubelet at a time."""

from dataclasses import replace

from tests.core.hosts import container, machine, pod, settings
from tests.core.snapshots import gpus, helping, snapshot

from numalign.core.kubelet import host as hosts
from numalign.core.what_if.host import refused_again, restarted, variants

GPU = "example.com/gpu"


def test_a_setting_that_needs_a_drain_is_named_where_the_pod_never_fits_otherwise():
    host = snapshot(settings("single-numa-node"), machine(), pod("a", container("c", 5, "1Gi")))
    found = helping(host, pod("b", container("x", 9, "1Gi")))
    drained = [change.text.split(" (")[0] for change in found if change.drained]
    assert drained == ["set cpuManagerPolicy: none"]


def test_running_pods_that_a_changed_kubelet_would_refuse_are_found():
    on = snapshot(
        settings("best-effort", memory=False),
        machine(),
        pod("spread", container("c", 2, "1Gi", gpu=2)),
        pod("local", container("c", 2, "1Gi")),
        plugins={GPU: gpus(0, 1)},
    )
    changed = hosts.build(
        replace(on.host.settings, topology_policy="single-numa-node"), on.host.info
    )
    assert refused_again(changed, restarted(changed, on.state)) == ("default/spread",)


def test_a_state_of_another_policy_does_not_start():
    on = snapshot(settings(), machine(), pod("a", container("c", 2, "1Gi")))
    changed = hosts.build(replace(on.host.settings, memory_policy="None"), on.host.info)
    assert restarted(changed, on.state) is None


def test_variants_differ_in_one_setting_and_an_alpha_option_brings_its_gate():
    now = settings("restricted", gates={"CPUManagerPolicyAlphaOptions": False})
    found = dict(variants(now))
    assert len(found) == 13
    assert all(changed != now for changed in found.values())
    text = next(text for text in found if "align-by-socket" in text)
    assert "alpha" in text
    assert found[text].gate("CPUManagerPolicyAlphaOptions")
