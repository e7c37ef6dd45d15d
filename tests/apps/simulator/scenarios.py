"""Small scenarios as texts."""

from numalign.wire.fleet.scenario.reading import read

SMALL = """
apiVersion: numalign.io/v1
kind: Scenario
name: small
hosts:
  - group: h
    count: 5
    machine: 2s:1n:8c:2t,mem=64Gi
    devices: {intel.com/sriov_vf: 4}
    kubelet: {reservedSystemCPUs: "0"}
work:
  - preset: web-mix
    pods: 300
    hours: 10
    load: 1.2
samples: 12
seeds: 1-2
"""


def scenario(more="", text=SMALL):
    return read((text + more).encode(), "small.yaml")
