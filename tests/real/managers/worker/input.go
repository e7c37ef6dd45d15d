package worker

import (
	"bytes"
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/utils/cpuset"
)

// Scenario is one input. A field that is not listed here is an error: what we would not pass on to the
// kubelet's code must not look compared, or measured.
type Scenario struct {
	ID      string `json:"id"`
	Machine struct {
		Shape     string     `json:"shape"`
		NUMANodes []numaNode `json:"numa_nodes"`
	} `json:"machine"`
	Kubelet              Settings            `json:"kubelet"`
	Devices              map[string][]Device `json:"devices"`
	PreferringAllocation []string            `json:"devices_preferred_allocation"`
	Steps                []Step              `json:"steps"`
}

type numaNode struct {
	ID          int               `json:"id"`
	MemoryBytes uint64            `json:"memory_bytes"`
	HugePages   map[string]uint64 `json:"hugepages"`
	Distances   []uint64          `json:"distances"`
	CPUs        []struct {
		ID     int  `json:"id"`
		Core   int  `json:"core"`
		Socket int  `json:"socket"`
		Uncore *int `json:"uncore"`
	} `json:"cpus"`
}

// Settings are those of the kubelet, in the words of the reference vectors.
type Settings struct {
	TopologyManagerPolicy  string             `json:"topology_manager_policy"`
	TopologyManagerScope   string             `json:"topology_manager_scope"`
	TopologyManagerOptions map[string]string  `json:"topology_manager_policy_options"`
	CPUManagerPolicy       string             `json:"cpu_manager_policy"`
	CPUManagerOptions      map[string]string  `json:"cpu_manager_policy_options"`
	ReservedCPUs           string             `json:"reserved_cpus"`
	ReservedCPUQuantity    *resource.Quantity `json:"reserved_cpu_quantity"`
	MemoryManagerPolicy    string             `json:"memory_manager_policy"`
	NodeReservation        v1.ResourceList    `json:"node_allocatable_reservation"`
	FeatureGates           map[string]bool    `json:"feature_gates"`
	ReservedMemory         []struct {
		NUMA  int32           `json:"numa"`
		Type  v1.ResourceName `json:"type"`
		Bytes int64           `json:"bytes"`
	} `json:"reserved_memory"`
}

// Device is one device of a plugin.
type Device struct {
	ID      string  `json:"id"`
	NUMA    []int64 `json:"numa"`
	Healthy *bool   `json:"healthy"`
}

// Step does one thing: exactly one of its fields is given.
type Step struct {
	Admit        *PodInput     `json:"admit"`
	Resize       *PodInput     `json:"resize"`
	Remove       *types.UID    `json:"remove"`
	Start        *types.UID    `json:"start"`
	Restart      bool          `json:"restart"`
	DeviceHealth *HealthChange `json:"device_health"`
}

// HealthChange is what a plugin says of one of its devices.
type HealthChange struct {
	Resource string `json:"resource"`
	ID       string `json:"id"`
	Healthy  bool   `json:"healthy"`
}

// PodInput is a pod as far as its placement goes.
type PodInput struct {
	UID            types.UID        `json:"uid"`
	Name           string           `json:"name"`
	Namespace      string           `json:"namespace"`
	InitContainers []containerInput `json:"init_containers"`
	Containers     []containerInput `json:"containers"`
	Requests       v1.ResourceList  `json:"requests"`
	Limits         v1.ResourceList  `json:"limits"`
}

type containerInput struct {
	Name          string                     `json:"name"`
	Requests      v1.ResourceList            `json:"requests"`
	Limits        v1.ResourceList            `json:"limits"`
	RestartPolicy *v1.ContainerRestartPolicy `json:"restart_policy"`
}

// ParseScenario reads one JSON object.
func ParseScenario(text []byte) (Scenario, error) {
	var found Scenario
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return found, decoder.Decode(&found)
}

// Pod gives the pod as the API server would have completed it.
func (p PodInput) Pod() *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: p.UID, Name: p.Name, Namespace: p.Namespace}}
	pod.Spec.InitContainers = containers(p.InitContainers)
	pod.Spec.Containers = containers(p.Containers)
	if p.Requests != nil || p.Limits != nil {
		pod.Spec.Resources = &v1.ResourceRequirements{Requests: p.Requests, Limits: p.Limits}
	}
	pod.Status.QOSClass = qos.ComputePodQOS(pod)
	return pod
}

func containers(inputs []containerInput) []v1.Container {
	var found []v1.Container
	for _, one := range inputs {
		found = append(found, v1.Container{
			Name:          one.Name,
			Resources:     v1.ResourceRequirements{Requests: one.Requests, Limits: one.Limits},
			RestartPolicy: one.RestartPolicy,
		})
	}
	return found
}

// machine describes the hardware in the words of cAdvisor, from which the managers learn it.
func (s Scenario) machine() (*machineInfo, error) {
	info := &machineInfo{}
	sockets := map[int]bool{}
	for _, from := range s.Machine.NUMANodes {
		to := appended(&info.Topology)
		to.Id, to.Memory, to.Distances = from.ID, from.MemoryBytes, from.Distances
		for size, count := range from.HugePages {
			bytes, err := resource.ParseQuantity(size)
			if err != nil {
				return nil, err
			}
			pages := appended(&to.HugePages)
			pages.PageSize, pages.NumPages = uint64(bytes.Value())/1024, count
		}
		place := map[[2]int]int{}
		for _, cpu := range from.CPUs {
			sockets[cpu.Socket] = true
			key := [2]int{cpu.Socket, cpu.Core}
			if _, known := place[key]; !known {
				place[key] = len(to.Cores)
				core := appended(&to.Cores)
				core.Id, core.SocketID = cpu.Core, cpu.Socket
				if cpu.Uncore != nil {
					cache := appended(&core.UncoreCaches)
					cache.Id, cache.Level = *cpu.Uncore, 3
				}
			}
			core := &to.Cores[place[key]]
			core.Threads = append(core.Threads, cpu.ID)
		}
		info.NumCores += len(from.CPUs)
		info.NumPhysicalCores += len(to.Cores)
		info.MemoryCapacity += from.MemoryBytes
	}
	info.NumSockets = len(sockets)
	return info, nil
}

// appended gives a new last element of the list. It needs no name for the type, which Kubernetes 1.36 and
// 1.37 take from different packages.
func appended[T any](list *[]T) *T {
	*list = append(*list, *new(T))
	return &(*list)[len(*list)-1]
}

// Reservation is the node-allocatable reservation: the reserved CPUs and all reserved memory, unless
// the scenario says otherwise.
func (s Settings) Reservation(reserved cpuset.CPUSet) v1.ResourceList {
	if s.NodeReservation != nil {
		return s.NodeReservation
	}
	total := v1.ResourceList{}
	if reserved.Size() > 0 {
		total[v1.ResourceCPU] = *resource.NewQuantity(int64(reserved.Size()), resource.DecimalSI)
	} else if s.ReservedCPUQuantity != nil {
		total[v1.ResourceCPU] = *s.ReservedCPUQuantity
	}
	for _, entry := range s.ReservedMemory {
		sum := total[entry.Type]
		if sum.IsZero() {
			sum = *resource.NewQuantity(0, resource.BinarySI)
		}
		sum.Add(*resource.NewQuantity(entry.Bytes, resource.BinarySI))
		total[entry.Type] = sum
	}
	return total
}

func (s Settings) memoryReservations() []kubeletconfig.MemoryReservation {
	var reserved []kubeletconfig.MemoryReservation
	for _, entry := range s.ReservedMemory {
		amount := *resource.NewQuantity(entry.Bytes, resource.BinarySI)
		reserved = append(reserved, kubeletconfig.MemoryReservation{
			NumaNode: entry.NUMA,
			Limits:   v1.ResourceList{entry.Type: amount},
		})
	}
	return reserved
}

// pluginDevices describes the devices as their plugin would; no NUMA node means that it says nothing of them.
func pluginDevices(devices []Device) []*pluginapi.Device {
	described := make([]*pluginapi.Device, 0, len(devices))
	for _, one := range devices {
		told := &pluginapi.Device{ID: one.ID, Health: pluginapi.Healthy}
		if one.Healthy != nil && !*one.Healthy {
			told.Health = pluginapi.Unhealthy
		}
		if len(one.NUMA) > 0 {
			told.Topology = &pluginapi.TopologyInfo{}
		}
		for _, id := range one.NUMA {
			told.Topology.Nodes = append(told.Topology.Nodes, &pluginapi.NUMANode{ID: id})
		}
		described = append(described, told)
	}
	return described
}
