from tests.apps.simulator.scenarios import scenario

from numalign.apps.exporter.metrics import ExporterMetrics
from numalign.apps.simulator.captured import topology_of
from numalign.apps.simulator.moments import run_until
from numalign.core.fleet import capacity
from numalign.wire.fleet.shapes import reference_mix


def test_capacity_for_reference_shapes_is_that_of_the_published_host():
    host = run_until(scenario("schedulers: [totals]\n"), 4 * 3600).hosts[0]
    mix = reference_mix(b"small: {cpu: 2, memory: 1Gi}\n", "shapes.yaml")
    metrics = ExporterMetrics()
    metrics.follow_capacity(mix)
    metrics.seen(topology_of(host), host.state.pods.values())
    count = capacity.filled(host.frame, host.state, mix[0].pod).count
    assert count > 0
    text = metrics.text().decode()
    assert f'numalign_capacity_pods{{shape="small"}} {float(count)}' in text
    assert 'numalign_capacity_stranded{node="1",resource="cpu"}' in text
    assert "numalign_capacity_hosts_behind 0.0" in text
