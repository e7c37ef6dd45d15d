package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"
)

const (
	// kubeletDirectory holds the state files, and below it the device manager its checkpoint.
	kubeletDirectory = "/var/lib/kubelet"
	// reconcilePeriod keeps the CPU manager's background loop out of the measurement.
	reconcilePeriod = time.Hour
)

// node is a worker as far as admission goes: the four managers, and the pods that are active.
type node struct {
	topology topologymanager.Manager
	devices  *devicemanager.ManagerImpl
	cpus     topologymanager.HintProvider
	memory   topologymanager.HintProvider
	active   activePods
	nobody   *v1.Pod
}

// startNode makes and starts all managers on an empty state, and registers the devices. The order, of
// the managers and so of the hint providers, is that of the kubelet's NewContainerManager.
func startNode(in input, mode string) (*node, error) {
	if err := os.RemoveAll(kubeletDirectory); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(kubeletDirectory, 0o755); err != nil {
		return nil, err
	}
	machine := in.machine()
	n := &node{nobody: &v1.Pod{Status: v1.PodStatus{QOSClass: v1.PodQOSBestEffort}}}
	var err error
	n.topology, err = topologymanager.NewManager(machine.Topology, in.Kubelet.TopologyManagerPolicy,
		in.Kubelet.TopologyManagerScope, in.Kubelet.TopologyManagerOptions)
	if err != nil {
		return nil, fmt.Errorf("topology manager: %w", err)
	}
	n.devices, err = devicemanager.NewManagerImpl(machine.Topology, n.topology)
	if err != nil {
		return nil, fmt.Errorf("device manager: %w", err)
	}
	startProviders := n.startManagers
	if mode == modeMemory {
		startProviders = n.startInMemory
	}
	if err := startProviders(in.Kubelet, machine); err != nil {
		return nil, err
	}
	for _, provider := range []topologymanager.HintProvider{n.devices, n.cpus, n.memory} {
		n.topology.AddHintProvider(klog.Background(), provider)
	}
	return n, n.startDevices(in)
}

// startManagers starts the real CPU and memory managers, which write their state files at each change.
func (n *node) startManagers(kubelet settings, machine *cadvisor.MachineInfo) error {
	ctx, logger := context.Background(), klog.Background()
	cpus, err := cpumanager.NewManager(logger, kubelet.CPUManagerPolicy, kubelet.CPUManagerOptions, reconcilePeriod,
		machine, cpuset.New(), kubelet.reservation(), kubeletDirectory, n.topology)
	if err != nil {
		return fmt.Errorf("CPU manager: %w", err)
	}
	memory, err := memorymanager.NewManager(logger, kubelet.MemoryManagerPolicy, machine, kubelet.reservation(),
		kubelet.memoryReservations(), kubeletDirectory, n.topology)
	if err != nil {
		return fmt.Errorf("memory manager: %w", err)
	}
	if err := cpus.Start(ctx, n.active.list, allReady{}, noStatus{}, nil, containermap.NewContainerMap()); err != nil {
		return fmt.Errorf("CPU manager: %w", err)
	}
	if err := memory.Start(ctx, n.active.list, allReady{}, noStatus{}, nil, containermap.NewContainerMap()); err != nil {
		return fmt.Errorf("memory manager: %w", err)
	}
	n.cpus, n.memory = cpus, memory
	return nil
}

func (n *node) startDevices(in input) error {
	ctx, logger := context.Background(), klog.Background()
	err := n.devices.Start(logger, n.active.list, allReady{}, containermap.NewContainerMap(), sets.New[string]())
	if err != nil {
		return fmt.Errorf("device manager: %w", err)
	}
	for resource, devices := range in.Devices {
		plugin := &localPlugin{resource: resource, prefers: slices.Contains(in.PreferringAllocation, resource)}
		if err := n.devices.PluginConnected(ctx, resource, plugin); err != nil {
			return fmt.Errorf("device plugin of %s: %w", resource, err)
		}
		n.devices.PluginListAndWatchReceiver(logger, resource,
			&pluginapi.ListAndWatchResponse{Devices: pluginDevices(devices)})
	}
	return nil
}

// admit makes the pod active and asks the topology manager for it, as the kubelet does for a new pod.
func (n *node) admit(pod *v1.Pod) bool {
	n.active.add(pod)
	return n.topology.Admit(&lifecycle.PodAdmitAttributes{Pod: pod}).Admit
}

// admitAll admits one pod after the other, removes at once what was refused, and gives the number that stayed.
func (n *node) admitAll(pods []*v1.Pod) int {
	admitted := 0
	for _, pod := range pods {
		if n.admit(pod) {
			admitted++
		} else {
			n.remove(pod)
		}
	}
	return admitted
}

// remove makes the pod inactive, and each manager drop what it still holds for it. The CPU and memory
// managers do that before every question, so we ask them about a pod that wants nothing.
func (n *node) remove(pod *v1.Pod) {
	n.active.remove(pod)
	n.devices.UpdateAllocatedDevices()
	n.cpus.GetPodTopologyHints(n.nobody)
	n.memory.GetPodTopologyHints(n.nobody)
}

func (n *node) stop() error {
	return n.devices.Stop(klog.Background())
}

// activePods is the list that the kubelet's pod manager would keep. The CPU manager's background loop reads it too.
type activePods struct {
	mutex sync.Mutex
	pods  []*v1.Pod
}

func (a *activePods) list() []*v1.Pod {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return slices.Clone(a.pods)
}

func (a *activePods) add(pod *v1.Pod) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.pods = append(a.pods, pod)
}

func (a *activePods) remove(gone *v1.Pod) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.pods = slices.DeleteFunc(a.pods, func(pod *v1.Pod) bool { return pod.UID == gone.UID })
}

// allReady says that the kubelet has seen all of its pods, so that stale state may go.
type allReady struct{}

func (allReady) AddSource(string) {}
func (allReady) AllReady() bool   { return true }

// noStatus knows of no container: nothing is started here.
type noStatus struct{}

func (noStatus) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }
