//go:build !k137

package worker

import (
	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// What 1.36 and 1.37 call in different ways. This file is 1.36.

type machineInfo = cadvisor.MachineInfo

func newTopologyManager(machine *machineInfo, kubelet Settings) (topologymanager.Manager, error) {
	return topologymanager.NewManager(machine.Topology, kubelet.TopologyManagerPolicy,
		kubelet.TopologyManagerScope, kubelet.TopologyManagerOptions)
}

func newDeviceManager(machine *machineInfo, affinity topologymanager.Store) (*devicemanager.ManagerImpl, error) {
	return devicemanager.NewManagerImpl(machine.Topology, affinity)
}

// Ask asks the topology manager about a pod, which becomes or is active.
func (w *Worker) Ask(pod *v1.Pod, operation lifecycle.Operation) lifecycle.PodAdmitResult {
	return w.Topology.Admit(&lifecycle.PodAdmitAttributes{Pod: pod, Operation: operation})
}

// dropStale makes each manager drop what inactive pods still hold. The CPU and memory managers do that
// before every question, so we ask them about a pod that wants nothing.
func (w *Worker) dropStale() {
	w.Devices.UpdateAllocatedDevices()
	w.cpuHints.GetPodTopologyHints(nobody)
	w.memoryHints.GetPodTopologyHints(nobody)
}

func (w *Worker) addToTopology(pod *v1.Pod, container *v1.Container, id string) {
	w.Topology.AddContainer(pod, container, id)
}

func (w *Worker) removeFromTopology(id string) error {
	return w.Topology.RemoveContainer(id)
}

// MemoryOf gives the memory that a container holds.
func (w *Worker) MemoryOf(uid, name string) []state.Block {
	return w.Memory.GetMemory(uid, name)
}

// AffinityOf gives the hint that a container was placed by.
func (w *Worker) AffinityOf(uid, name string) topologymanager.TopologyHint {
	return w.Topology.GetAffinity(uid, name)
}
