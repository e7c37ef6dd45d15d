package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
)

// input is one benchmark input. A field that is not listed here is an error: what we would not
// pass on to the kubelet's code must not look measured.
type input struct {
	ID      string `json:"id"`
	Machine struct {
		Shape     string     `json:"shape"`
		NUMANodes []numaNode `json:"numa_nodes"`
	} `json:"machine"`
	Kubelet              settings            `json:"kubelet"`
	Devices              map[string][]device `json:"devices"`
	PreferringAllocation []string            `json:"devices_preferred_allocation"`
	Steps                []struct {
		Admit *podInput `json:"admit"`
	} `json:"steps"`
}

type numaNode struct {
	ID          int      `json:"id"`
	MemoryBytes uint64   `json:"memory_bytes"`
	Distances   []uint64 `json:"distances"`
	CPUs        []struct {
		ID     int  `json:"id"`
		Core   int  `json:"core"`
		Socket int  `json:"socket"`
		Uncore *int `json:"uncore"`
	} `json:"cpus"`
}

type settings struct {
	TopologyManagerPolicy  string            `json:"topology_manager_policy"`
	TopologyManagerScope   string            `json:"topology_manager_scope"`
	TopologyManagerOptions map[string]string `json:"topology_manager_policy_options"`
	CPUManagerPolicy       string            `json:"cpu_manager_policy"`
	CPUManagerOptions      map[string]string `json:"cpu_manager_policy_options"`
	ReservedCPUQuantity    resource.Quantity `json:"reserved_cpu_quantity"`
	MemoryManagerPolicy    string            `json:"memory_manager_policy"`
	ReservedMemory         []struct {
		NUMA  int32           `json:"numa"`
		Type  v1.ResourceName `json:"type"`
		Bytes int64           `json:"bytes"`
	} `json:"reserved_memory"`
}

type device struct {
	ID   string  `json:"id"`
	NUMA []int64 `json:"numa"`
}

type podInput struct {
	UID        types.UID `json:"uid"`
	Name       string    `json:"name"`
	Namespace  string    `json:"namespace"`
	Containers []struct {
		Name     string          `json:"name"`
		Requests v1.ResourceList `json:"requests"`
		Limits   v1.ResourceList `json:"limits"`
	} `json:"containers"`
}

func readInput(path string) (input, error) {
	var in input
	text, err := os.ReadFile(path)
	if err != nil {
		return in, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return in, decoder.Decode(&in)
}

// pods gives the pods of all steps, as the API server would have completed them.
func (in input) pods() ([]*v1.Pod, error) {
	if len(in.Steps) == 0 {
		return nil, errors.New("there is no step to run")
	}
	pods := make([]*v1.Pod, 0, len(in.Steps))
	for number, step := range in.Steps {
		if step.Admit == nil {
			return nil, fmt.Errorf("step %d admits no pod", number)
		}
		pods = append(pods, step.Admit.pod())
	}
	return pods, nil
}

func (p podInput) pod() *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: p.UID, Name: p.Name, Namespace: p.Namespace}}
	for _, container := range p.Containers {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
			Name:      container.Name,
			Resources: v1.ResourceRequirements{Requests: container.Requests, Limits: container.Limits},
		})
	}
	pod.Status.QOSClass = qos.ComputePodQOS(pod)
	return pod
}

// machine describes the hardware in the words of cAdvisor, from which the managers learn it.
func (in input) machine() *cadvisor.MachineInfo {
	info := &cadvisor.MachineInfo{}
	sockets := map[int]bool{}
	for _, from := range in.Machine.NUMANodes {
		to := cadvisor.Node{Id: from.ID, Memory: from.MemoryBytes, Distances: from.Distances}
		place := map[[2]int]int{}
		for _, cpu := range from.CPUs {
			sockets[cpu.Socket] = true
			key := [2]int{cpu.Socket, cpu.Core}
			if _, known := place[key]; !known {
				place[key] = len(to.Cores)
				core := cadvisor.Core{Id: cpu.Core, SocketID: cpu.Socket}
				if cpu.Uncore != nil {
					core.UncoreCaches = []cadvisor.Cache{{Id: *cpu.Uncore, Level: 3}}
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
	return info
}

// reservation is the node-allocatable reservation: the reserved CPUs, and all reserved memory.
func (s settings) reservation() v1.ResourceList {
	total := v1.ResourceList{v1.ResourceCPU: s.ReservedCPUQuantity}
	for _, entry := range s.ReservedMemory {
		sum := total[entry.Type]
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

func pluginDevices(devices []device) []*pluginapi.Device {
	described := make([]*pluginapi.Device, 0, len(devices))
	for _, one := range devices {
		topology := &pluginapi.TopologyInfo{}
		for _, id := range one.NUMA {
			topology.Nodes = append(topology.Nodes, &pluginapi.NUMANode{ID: id})
		}
		described = append(described, &pluginapi.Device{ID: one.ID, Health: pluginapi.Healthy, Topology: topology})
	}
	return described
}
