package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

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
	// deviceDirectory is the only place where the device manager keeps its checkpoint.
	deviceDirectory = "/var/lib/kubelet/device-plugins"
	// reconcilePeriod keeps the CPU manager's background loop away.
	reconcilePeriod = time.Hour
)

// phaseError tells which manager could not be made or started.
type phaseError struct {
	phase string
	err   error
}

func (e *phaseError) Error() string { return e.phase + ": " + e.err.Error() }

// node is a worker as far as admission goes: the four managers, and the pods that are active.
type node struct {
	in        scenario
	machine   *machineInfo
	directory string
	topology  topologymanager.Manager
	devices   *devicemanager.ManagerImpl
	cpus      cpumanager.Manager
	memory    memorymanager.Manager
	active    *activePods
	started   map[types.UID][]string // ids of the containers that were started since the managers were
	nobody    *v1.Pod
}

// newNode makes all managers on an empty state. The state files of the CPU and memory managers go to a
// directory of this node alone, so that no background loop of an earlier one can meet them.
func newNode(in scenario, directory string) (*node, error) {
	for _, old := range []string{directory, deviceDirectory} {
		if err := os.RemoveAll(old); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return nil, err
	}
	in.Devices = copied(in.Devices)
	machine, err := in.machine()
	if err != nil {
		return nil, err
	}
	n := &node{in: in, machine: machine, directory: directory, active: &activePods{},
		nobody: &v1.Pod{Status: v1.PodStatus{QOSClass: v1.PodQOSBestEffort}}}
	return n, n.boot()
}

func copied(devices map[string][]device) map[string][]device {
	found := map[string][]device{}
	for name, list := range devices {
		found[name] = slices.Clone(list)
	}
	return found
}

// boot makes and starts the managers, in the order of the kubelet's NewContainerManager, and registers the devices.
func (n *node) boot() error {
	n.started = map[types.UID][]string{}
	if err := n.makeManagers(); err != nil {
		return err
	}
	ctx := context.Background()
	if err := n.cpus.Start(ctx, n.active.list, allReady{}, noStatus{}, nil, containermap.NewContainerMap()); err != nil {
		return &phaseError{"cpu_manager_start", err}
	}
	if err := n.memory.Start(ctx, n.active.list, allReady{}, noStatus{}, nil, containermap.NewContainerMap()); err != nil {
		return &phaseError{"memory_manager_start", err}
	}
	for _, provider := range []topologymanager.HintProvider{n.devices, n.cpus, n.memory} {
		n.topology.AddHintProvider(klog.Background(), provider)
	}
	return n.startDevices()
}

func (n *node) makeManagers() (err error) {
	kubelet, logger := n.in.Kubelet, klog.Background()
	reserved, err := cpuset.Parse(kubelet.ReservedCPUs)
	if err != nil {
		return err
	}
	reservation := kubelet.reservation(reserved)
	n.topology, err = newTopologyManager(n.machine, kubelet)
	if err != nil {
		return &phaseError{"topology_manager", err}
	}
	n.devices, err = newDeviceManager(n.machine, n.topology)
	if err != nil {
		return &phaseError{"device_manager", err}
	}
	n.cpus, err = cpumanager.NewManager(logger, kubelet.CPUManagerPolicy, kubelet.CPUManagerOptions, reconcilePeriod,
		n.machine, reserved, reservation, n.directory, n.topology)
	if err != nil {
		return &phaseError{"cpu_manager", err}
	}
	n.memory, err = memorymanager.NewManager(logger, kubelet.MemoryManagerPolicy, n.machine, reservation,
		kubelet.memoryReservations(), n.directory, n.topology)
	if err != nil {
		return &phaseError{"memory_manager", err}
	}
	return nil
}

func (n *node) startDevices() error {
	err := n.devices.Start(klog.Background(), n.active.list, allReady{}, containermap.NewContainerMap(), sets.New[string]())
	if err != nil {
		return &phaseError{"device_manager_start", err}
	}
	for _, resource := range sorted(n.in.Devices) {
		plugin := &localPlugin{resource: resource, prefers: slices.Contains(n.in.PreferringAllocation, resource)}
		if err := n.devices.PluginConnected(context.Background(), resource, plugin); err != nil {
			return err
		}
		n.report(resource)
	}
	return nil
}

// report lets the plugin of a resource tell all of its devices.
func (n *node) report(resource string) {
	n.devices.PluginListAndWatchReceiver(klog.Background(), resource,
		&pluginapi.ListAndWatchResponse{Devices: pluginDevices(n.in.Devices[resource])})
}

func (n *node) setHealth(change healthChange) {
	for i, one := range n.in.Devices[change.Resource] {
		if one.ID == change.ID {
			n.in.Devices[change.Resource][i].Healthy = &change.Healthy
		}
	}
	n.report(change.Resource)
}

// admit asks the topology manager for an active pod, as the kubelet does for a new one; one that is refused goes.
func (n *node) admit(pod *v1.Pod) lifecycle.PodAdmitResult {
	answer := n.ask(pod, lifecycle.AddOperation)
	if !answer.Admit {
		n.drop(pod)
	}
	return answer
}

// remove ends an active pod with all of its containers.
func (n *node) remove(uid types.UID) error {
	pod := n.active.find(uid)
	if pod == nil {
		return nil
	}
	var err error
	for _, id := range n.started[uid] {
		err = errors.Join(err, n.removeFromTopology(id))
	}
	delete(n.started, uid)
	n.drop(pod)
	return err
}

// drop makes the pod inactive, and each manager drop what it still holds for it.
func (n *node) drop(pod *v1.Pod) {
	n.active.remove(pod)
	n.dropStale()
}

// start calls what the kubelet calls before it starts each container, init containers first.
func (n *node) start(pod *v1.Pod) {
	for _, container := range allContainers(pod) {
		id := string(pod.UID) + "/" + container.Name
		n.cpus.AddContainer(klog.Background(), pod, container, id)
		n.memory.AddContainer(klog.Background(), pod, container, id)
		n.addToTopology(pod, container, id)
		n.started[pod.UID] = append(n.started[pod.UID], id)
	}
}

func (n *node) stop() error {
	return n.devices.Stop(klog.Background())
}

func allContainers(pod *v1.Pod) []*v1.Container {
	var found []*v1.Container
	for i := range pod.Spec.InitContainers {
		found = append(found, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		found = append(found, &pod.Spec.Containers[i])
	}
	return found
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

func (a *activePods) find(uid types.UID) *v1.Pod {
	for _, pod := range a.list() {
		if pod.UID == uid {
			return pod
		}
	}
	return nil
}

func (a *activePods) add(pod *v1.Pod) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.pods = append(a.pods, pod)
}

func (a *activePods) replace(pod *v1.Pod) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for i, old := range a.pods {
		if old.UID == pod.UID {
			a.pods[i] = pod
		}
	}
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

// noStatus knows of no container: no runtime runs here.
type noStatus struct{}

func (noStatus) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }
