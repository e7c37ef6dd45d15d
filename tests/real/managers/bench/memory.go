//go:build !k137

package main

import (
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	cputopology "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/utils/cpuset"

	"numalign/tests/real/managers/worker"
)

// The real managers always write state files. Their policies and their memory-only states are exported,
// though, so that in memory mode we put the policies behind a thin provider of our own. The device
// manager has no such seam: its checkpoint is written in both modes.

// policy is what the CPU and the memory policies have in common; S is the state that they work on.
type policy[S any] interface {
	Start(klog.Logger, S) error
	Allocate(klog.Logger, S, *v1.Pod, *v1.Container) error
	AllocatePod(klog.Logger, S, *v1.Pod) error
	GetTopologyHints(klog.Logger, S, *v1.Pod, *v1.Container) map[string][]topologymanager.TopologyHint
	GetPodTopologyHints(klog.Logger, S, *v1.Pod) map[string][]topologymanager.TopologyHint
}

// inMemory is a hint provider that drops stale state before each call, as the real managers do.
type inMemory[S any] struct {
	mutex  sync.Mutex
	policy policy[S]
	state  S
	active func() []*v1.Pod
	held   func() []holder
	drop   func(holder)
}

// holder is a container that resources are assigned to.
type holder struct{ pod, container string }

// policiesInMemory provides the CPU and memory policies without their managers, and so without state files.
func policiesInMemory(w *worker.Worker, reserved cpuset.CPUSet) (cpus, memory topologymanager.HintProvider, err error) {
	if cpus, err = cpusInMemory(w, reserved); err != nil {
		return nil, nil, fmt.Errorf("CPU policy: %w", err)
	}
	if memory, err = memoryInMemory(w); err != nil {
		return nil, nil, fmt.Errorf("memory policy: %w", err)
	}
	return cpus, memory, nil
}

func cpusInMemory(w *worker.Worker, reserved cpuset.CPUSet) (topologymanager.HintProvider, error) {
	chosen, err := cpuPolicy(w, reserved)
	if err != nil {
		return nil, err
	}
	state := cpustate.NewMemoryState(klog.Background())
	return startInMemory(w, chosen, state,
		func() []holder { return holders(state.GetCPUAssignments()) },
		func(h holder) { _ = chosen.RemoveContainer(klog.Background(), state, h.pod, h.container) })
}

func cpuPolicy(w *worker.Worker, reserved cpuset.CPUSet) (cpumanager.Policy, error) {
	kubelet := w.In.Kubelet
	if kubelet.CPUManagerPolicy != string(cpumanager.PolicyStatic) {
		return cpumanager.NewNonePolicy(kubelet.CPUManagerOptions)
	}
	topology, err := cputopology.Discover(klog.Background(), w.Machine)
	if err != nil {
		return nil, err
	}
	reservation := kubelet.Reservation(reserved)
	count := reservation.Cpu().Value() // rounded up
	return cpumanager.NewStaticPolicy(klog.Background(), topology, int(count), reserved, w.Topology, kubelet.CPUManagerOptions)
}

func memoryInMemory(w *worker.Worker) (topologymanager.HintProvider, error) {
	chosen, err := memoryPolicy(w)
	if err != nil {
		return nil, err
	}
	state := memorystate.NewMemoryState(klog.Background())
	return startInMemory(w, chosen, state,
		func() []holder { return holders(state.GetMemoryAssignments()) },
		func(h holder) { chosen.RemoveContainer(klog.Background(), state, h.pod, h.container) })
}

func memoryPolicy(w *worker.Worker) (memorymanager.Policy, error) {
	kubelet := w.In.Kubelet
	if kubelet.MemoryManagerPolicy != string(memorymanager.PolicyTypeStatic) {
		return memorymanager.NewPolicyNone(klog.Background()), nil
	}
	reserved := map[int]map[v1.ResourceName]uint64{}
	for _, node := range w.Machine.Topology {
		reserved[node.Id] = map[v1.ResourceName]uint64{}
	}
	for _, entry := range kubelet.ReservedMemory {
		reserved[int(entry.NUMA)][entry.Type] = uint64(entry.Bytes)
	}
	return memorymanager.NewPolicyStatic(klog.Background(), w.Machine, reserved, w.Topology)
}

func startInMemory[S any](w *worker.Worker, chosen policy[S], state S, held func() []holder, drop func(holder)) (topologymanager.HintProvider, error) {
	provider := &inMemory[S]{policy: chosen, state: state, active: w.Active.List, held: held, drop: drop}
	return provider, chosen.Start(klog.Background(), state)
}

// holders lists who holds something, whatever it is.
func holders[M ~map[string]map[string]V, V any](assignments M) []holder {
	var found []holder
	for pod, containers := range assignments {
		for container := range containers {
			found = append(found, holder{pod, container})
		}
	}
	return found
}

func (p *inMemory[S]) dropStale() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	living := map[holder]bool{}
	for _, pod := range p.active() {
		for i := range pod.Spec.Containers {
			living[holder{string(pod.UID), pod.Spec.Containers[i].Name}] = true
		}
	}
	for _, one := range p.held() {
		if !living[one] {
			p.drop(one)
		}
	}
}

// GetTopologyHints asks the policy where the container could go.
func (p *inMemory[S]) GetTopologyHints(pod *v1.Pod, container *v1.Container) map[string][]topologymanager.TopologyHint {
	p.dropStale()
	return p.policy.GetTopologyHints(klog.Background(), p.state, pod, container)
}

// GetPodTopologyHints asks the policy where the whole pod could go.
func (p *inMemory[S]) GetPodTopologyHints(pod *v1.Pod) map[string][]topologymanager.TopologyHint {
	p.dropStale()
	return p.policy.GetPodTopologyHints(klog.Background(), p.state, pod)
}

// Allocate lets the policy take what the container needs.
func (p *inMemory[S]) Allocate(pod *v1.Pod, container *v1.Container) error {
	p.dropStale()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.policy.Allocate(klog.Background(), p.state, pod, container)
}

// AllocatePod lets the policy take what the whole pod needs.
func (p *inMemory[S]) AllocatePod(pod *v1.Pod) error {
	p.dropStale()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.policy.AllocatePod(klog.Background(), p.state, pod)
}
