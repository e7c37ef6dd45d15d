package worker

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
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
	// DeviceDirectory is the only place where the device manager keeps its checkpoint.
	DeviceDirectory = "/var/lib/kubelet/device-plugins"
	// reconcilePeriod keeps the CPU manager's background loop away.
	reconcilePeriod = time.Hour
)

// nobody is a pod that wants nothing.
var nobody = &v1.Pod{Status: v1.PodStatus{QOSClass: v1.PodQOSBestEffort}}

// PhaseError tells which manager could not be made or started.
type PhaseError struct {
	Phase string
	Err   error
}

func (e *PhaseError) Error() string { return e.Phase + ": " + e.Err.Error() }

// Worker is a host as far as admission goes: the four managers, and the pods that are active.
type Worker struct {
	In        Scenario
	Machine   *machineInfo
	Directory string // of the state files
	Topology  topologymanager.Manager
	Devices   *devicemanager.ManagerImpl
	CPUs      cpumanager.Manager    // nil unless Managers provide
	Memory    memorymanager.Manager // nil unless Managers provide
	Active    *ActivePods

	provide     Providers
	cpuHints    topologymanager.HintProvider
	memoryHints topologymanager.HintProvider
	started     map[types.UID][]string // ids of the containers that were started since the managers were
}

// Providers makes and starts what decides about CPUs and about memory.
type Providers func(w *Worker, reserved cpuset.CPUSet) (cpus, memory topologymanager.HintProvider, err error)

// New makes and starts a worker on an empty state. The state files of the CPU and memory managers go to a
// directory of this worker alone, so that no background loop of an earlier one can meet them.
func New(in Scenario, directory string, provide Providers) (*Worker, error) {
	for _, old := range []string{directory, DeviceDirectory} {
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
	w := &Worker{In: in, Machine: machine, Directory: directory, Active: &ActivePods{}, provide: provide}
	return w, w.Boot()
}

func copied(devices map[string][]Device) map[string][]Device {
	found := map[string][]Device{}
	for name, list := range devices {
		found[name] = slices.Clone(list)
	}
	return found
}

// Boot makes and starts the managers and registers the devices. The order, of the managers and so of the
// hint providers, is that of the kubelet's NewContainerManager.
func (w *Worker) Boot() error {
	w.started = map[types.UID][]string{}
	reserved, err := cpuset.Parse(w.In.Kubelet.ReservedCPUs)
	if err != nil {
		return err
	}
	w.Topology, err = newTopologyManager(w.Machine, w.In.Kubelet)
	if err != nil {
		return &PhaseError{"topology_manager", err}
	}
	w.Devices, err = newDeviceManager(w.Machine, w.Topology)
	if err != nil {
		return &PhaseError{"device_manager", err}
	}
	w.cpuHints, w.memoryHints, err = w.provide(w, reserved)
	if err != nil {
		return err
	}
	for _, provider := range []topologymanager.HintProvider{w.Devices, w.cpuHints, w.memoryHints} {
		w.Topology.AddHintProvider(klog.Background(), provider)
	}
	return w.startDevices()
}

// Managers are the real CPU and memory managers, which write their state files at each change.
func Managers(w *Worker, reserved cpuset.CPUSet) (cpus, memory topologymanager.HintProvider, err error) {
	if err := w.makeManagers(reserved); err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	if err := w.CPUs.Start(ctx, w.Active.List, allReady{}, noStatus{}, nil, containermap.NewContainerMap()); err != nil {
		return nil, nil, &PhaseError{"cpu_manager_start", err}
	}
	if err := w.Memory.Start(ctx, w.Active.List, allReady{}, noStatus{}, nil, containermap.NewContainerMap()); err != nil {
		return nil, nil, &PhaseError{"memory_manager_start", err}
	}
	return w.CPUs, w.Memory, nil
}

func (w *Worker) makeManagers(reserved cpuset.CPUSet) (err error) {
	kubelet, logger := w.In.Kubelet, klog.Background()
	reservation := kubelet.Reservation(reserved)
	w.CPUs, err = cpumanager.NewManager(logger, kubelet.CPUManagerPolicy, kubelet.CPUManagerOptions, reconcilePeriod,
		w.Machine, reserved, reservation, w.Directory, w.Topology)
	if err != nil {
		return &PhaseError{"cpu_manager", err}
	}
	w.Memory, err = memorymanager.NewManager(logger, kubelet.MemoryManagerPolicy, w.Machine, reservation,
		kubelet.memoryReservations(), w.Directory, w.Topology)
	if err != nil {
		return &PhaseError{"memory_manager", err}
	}
	return nil
}

func (w *Worker) startDevices() error {
	err := w.Devices.Start(klog.Background(), w.Active.List, allReady{}, containermap.NewContainerMap(), sets.New[string]())
	if err != nil {
		return &PhaseError{"device_manager_start", err}
	}
	for _, resource := range slices.Sorted(maps.Keys(w.In.Devices)) {
		plugin := &localPlugin{resource: resource, prefers: slices.Contains(w.In.PreferringAllocation, resource)}
		if err := w.Devices.PluginConnected(context.Background(), resource, plugin); err != nil {
			return err
		}
		w.report(resource)
	}
	return nil
}

// report lets the plugin of a resource tell all of its devices.
func (w *Worker) report(resource string) {
	w.Devices.PluginListAndWatchReceiver(klog.Background(), resource,
		&pluginapi.ListAndWatchResponse{Devices: pluginDevices(w.In.Devices[resource])})
}

// SetHealth lets a plugin say that one of its devices works, or not.
func (w *Worker) SetHealth(change HealthChange) {
	for i, one := range w.In.Devices[change.Resource] {
		if one.ID == change.ID {
			w.In.Devices[change.Resource][i].Healthy = &change.Healthy
		}
	}
	w.report(change.Resource)
}

// Admit asks the topology manager for an active pod, as the kubelet does for a new one; one that is refused goes.
func (w *Worker) Admit(pod *v1.Pod) lifecycle.PodAdmitResult {
	answer := w.Ask(pod, lifecycle.AddOperation)
	if !answer.Admit {
		w.Drop(pod)
	}
	return answer
}

// Remove ends an active pod with all of its containers.
func (w *Worker) Remove(uid types.UID) error {
	pod := w.Active.Find(uid)
	if pod == nil {
		return nil
	}
	var err error
	for _, id := range w.started[uid] {
		err = errors.Join(err, w.removeFromTopology(id))
	}
	delete(w.started, uid)
	w.Drop(pod)
	return err
}

// Drop makes the pod inactive, and each manager drop what it still holds for it.
func (w *Worker) Drop(pod *v1.Pod) {
	w.Active.remove(pod)
	w.dropStale()
}

// Start calls what the kubelet calls before it starts each container, init containers first.
func (w *Worker) Start(pod *v1.Pod) {
	for _, container := range AllContainers(pod) {
		id := string(pod.UID) + "/" + container.Name
		w.CPUs.AddContainer(klog.Background(), pod, container, id)
		w.Memory.AddContainer(klog.Background(), pod, container, id)
		w.addToTopology(pod, container, id)
		w.started[pod.UID] = append(w.started[pod.UID], id)
	}
}

// Stop ends the device manager; the others have nothing to end.
func (w *Worker) Stop() error {
	return w.Devices.Stop(klog.Background())
}

// AllContainers lists the containers of a pod, init containers first.
func AllContainers(pod *v1.Pod) []*v1.Container {
	var found []*v1.Container
	for i := range pod.Spec.InitContainers {
		found = append(found, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		found = append(found, &pod.Spec.Containers[i])
	}
	return found
}
