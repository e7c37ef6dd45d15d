//go:build !k137

package main

import (
	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// What 1.36 and 1.37 call in different ways. This file is 1.36.

type (
	machineInfo   = cadvisor.MachineInfo
	machineNode   = cadvisor.Node
	machineCore   = cadvisor.Core
	machineCache  = cadvisor.Cache
	hugePagesInfo = cadvisor.HugePagesInfo
)

func newTopologyManager(machine *machineInfo, kubelet settings) (topologymanager.Manager, error) {
	return topologymanager.NewManager(machine.Topology, kubelet.TopologyManagerPolicy,
		kubelet.TopologyManagerScope, kubelet.TopologyManagerOptions)
}

func newDeviceManager(machine *machineInfo, affinity topologymanager.Store) (*devicemanager.ManagerImpl, error) {
	return devicemanager.NewManagerImpl(machine.Topology, affinity)
}

func (n *node) ask(pod *v1.Pod, operation lifecycle.Operation) lifecycle.PodAdmitResult {
	return n.topology.Admit(&lifecycle.PodAdmitAttributes{Pod: pod, Operation: operation})
}

// dropStale makes each manager drop what inactive pods still hold. The CPU and memory managers do that
// before every question, so we ask them about a pod that wants nothing.
func (n *node) dropStale() {
	n.devices.UpdateAllocatedDevices()
	n.cpus.GetPodTopologyHints(n.nobody)
	n.memory.GetPodTopologyHints(n.nobody)
}

func (n *node) addToTopology(pod *v1.Pod, container *v1.Container, id string) {
	n.topology.AddContainer(pod, container, id)
}

func (n *node) removeFromTopology(id string) error {
	return n.topology.RemoveContainer(id)
}

func (n *node) memoryOf(uid, name string) []state.Block {
	return n.memory.GetMemory(uid, name)
}

func (n *node) affinityOf(uid, name string) topologymanager.TopologyHint {
	return n.topology.GetAffinity(uid, name)
}
