package main

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

// scenario is one line of the input. A field that is not listed here is an error: what we would not
// pass on to the kubelet's code must not look compared.
type scenario struct {
	ID      string `json:"id"`
	Machine struct {
		Shape     string     `json:"shape"`
		NUMANodes []numaNode `json:"numa_nodes"`
	} `json:"machine"`
	Kubelet              settings            `json:"kubelet"`
	Devices              map[string][]device `json:"devices"`
	PreferringAllocation []string            `json:"devices_preferred_allocation"`
	Steps                []step              `json:"steps"`
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

type settings struct {
	TopologyManagerPolicy  string             `json:"topology_manager_policy"`
	TopologyManagerScope   string             `json:"topology_manager_scope"`
	TopologyManagerOptions map[string]string  `json:"topology_manager_policy_options"`
	CPUManagerPolicy       string             `json:"cpu_manager_policy"`
	CPUManagerOptions      map[string]string  `json:"cpu_manager_policy_options"`
	ReservedCPUs           string             `json:"reserved_cpus"`
	ReservedCPUQuantity    *resource.Quantity `json:"reserved_cpu_quantity"`
	MemoryManagerPolicy    string             `json:"memory_manager_policy"`
	Reservation            v1.ResourceList    `json:"node_allocatable_reservation"`
	FeatureGates           map[string]bool    `json:"feature_gates"`
	ReservedMemory         []struct {
		NUMA  int32           `json:"numa"`
		Type  v1.ResourceName `json:"type"`
		Bytes int64           `json:"bytes"`
	} `json:"reserved_memory"`
}

type device struct {
	ID      string  `json:"id"`
	NUMA    []int64 `json:"numa"`
	Healthy *bool   `json:"healthy"`
}

// step does one thing: exactly one of its fields is given.
type step struct {
	Admit        *podInput     `json:"admit"`
	Resize       *podInput     `json:"resize"`
	Remove       *types.UID    `json:"remove"`
	Start        *types.UID    `json:"start"`
	Restart      bool          `json:"restart"`
	DeviceHealth *healthChange `json:"device_health"`
}

type healthChange struct {
	Resource string `json:"resource"`
	ID       string `json:"id"`
	Healthy  bool   `json:"healthy"`
}

type podInput struct {
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

func parseScenario(text []byte) (scenario, error) {
	var found scenario
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return found, decoder.Decode(&found)
}

// pod gives the pod as the API server would have completed it.
func (p podInput) pod() *v1.Pod {
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
func (s scenario) machine() (*machineInfo, error) {
	info := &machineInfo{}
	sockets := map[int]bool{}
	for _, from := range s.Machine.NUMANodes {
		to := machineNode{Id: from.ID, Memory: from.MemoryBytes, Distances: from.Distances}
		for size, count := range from.HugePages {
			bytes, err := resource.ParseQuantity(size)
			if err != nil {
				return nil, err
			}
			to.HugePages = append(to.HugePages, hugePagesInfo{PageSize: uint64(bytes.Value()) / 1024, NumPages: count})
		}
		place := map[[2]int]int{}
		for _, cpu := range from.CPUs {
			sockets[cpu.Socket] = true
			key := [2]int{cpu.Socket, cpu.Core}
			if _, known := place[key]; !known {
				place[key] = len(to.Cores)
				core := machineCore{Id: cpu.Core, SocketID: cpu.Socket}
				if cpu.Uncore != nil {
					core.UncoreCaches = []machineCache{{Id: *cpu.Uncore, Level: 3}}
				}
				to.Cores = append(to.Cores, core)
			}
			core := &to.Cores[place[key]]
			core.Threads = append(core.Threads, cpu.ID)
		}
		info.NumCores += len(from.CPUs)
		info.NumPhysicalCores += len(to.Cores)
		info.MemoryCapacity += from.MemoryBytes
		info.Topology = append(info.Topology, to)
	}
	info.NumSockets = len(sockets)
	return info, nil
}

// reservation is the node-allocatable reservation: the reserved CPUs and all reserved memory, unless
// the scenario says otherwise.
func (s settings) reservation(reserved cpuset.CPUSet) v1.ResourceList {
	if s.Reservation != nil {
		return s.Reservation
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

func (s settings) memoryReservations() []kubeletconfig.MemoryReservation {
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
func pluginDevices(devices []device) []*pluginapi.Device {
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
