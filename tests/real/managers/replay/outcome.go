package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	"numalign/tests/real/managers/worker"
)

// event is one line that a run writes: how the managers started, what a step did, or what was left at the end.
type event struct {
	Run   int            `json:"run"`
	Start *startOutcome  `json:"start,omitempty"`
	Step  map[string]any `json:"step,omitempty"`
	Files map[string]any `json:"files,omitempty"`
}

type startOutcome struct {
	Phase    string `json:"start_error_phase,omitempty"`
	Error    string `json:"start_error,omitempty"`
	Reserved string `json:"reserved_cpus"`
	Shared   string `json:"initial_shared_cpus"`
}

// host is a worker that tells what it does.
type host struct{ *worker.Worker }

// play runs the whole scenario once on fresh managers and tells each event as soon as it is known.
func play(in worker.Scenario, run int, tell func(event) error) error {
	made, err := worker.New(in, fmt.Sprintf("/state-%d", run), worker.Managers)
	if refused := new(worker.PhaseError); errors.As(err, &refused) {
		return tell(event{Run: run, Start: &startOutcome{Phase: refused.Phase, Error: refused.Err.Error()}})
	}
	if err != nil {
		return err
	}
	h := host{made}
	begun := &startOutcome{Reserved: h.reserved().String(), Shared: h.CPUs.State().GetDefaultCPUSet().String()}
	if err := tell(event{Run: run, Start: begun}); err != nil {
		return err
	}
	for _, one := range in.Steps {
		told, goesOn, err := h.do(one)
		if err != nil {
			return err
		}
		if err := tell(event{Run: run, Step: told}); err != nil {
			return err
		}
		if !goesOn {
			break
		}
	}
	files, err := h.files()
	if err != nil {
		return err
	}
	return errors.Join(tell(event{Run: run, Files: files}), h.Stop())
}

// do carries out one worker.Step; after a restart that failed nothing goes on.
func (h host) do(one worker.Step) (told map[string]any, goesOn bool, err error) {
	told = map[string]any{}
	switch {
	case one.Admit != nil:
		pod := one.Admit.Pod()
		h.Active.Add(pod)
		told["op"], told["uid"], told["qos"] = "admit", pod.UID, pod.Status.QOSClass
		h.tellAnswer(told, pod, h.Admit(pod))
	case one.Resize != nil:
		told["op"], told["uid"] = "resize", one.Resize.UID
		h.resize(told, one.Resize.Pod())
	case one.Remove != nil:
		told["op"], told["uid"] = "remove", *one.Remove
		err = h.Remove(*one.Remove)
	case one.Start != nil:
		told["op"], told["uid"] = "start", *one.Start
		if pod := h.Active.Find(*one.Start); pod != nil {
			h.Start(pod)
			told["containers"] = h.placements(pod)
		}
	case one.Restart:
		told["op"] = "restart"
		if err = h.restart(told); err != nil || told["error"] != nil {
			return told, false, err
		}
	case one.DeviceHealth != nil:
		told["op"] = "device_health"
		h.SetHealth(*one.DeviceHealth)
	default:
		err = errors.New("a step that does nothing")
	}
	h.tellState(told)
	return told, true, err
}

func (h host) restart(told map[string]any) error {
	if err := h.Stop(); err != nil {
		return err
	}
	err := h.Boot()
	if refused := new(worker.PhaseError); errors.As(err, &refused) {
		told["error"] = refused.Error()
		return nil
	}
	if err != nil {
		return err
	}
	var answers []map[string]any
	for _, pod := range h.Active.List() {
		answer := map[string]any{"uid": pod.UID}
		h.tellAnswer(answer, pod, h.Admit(pod))
		answers = append(answers, answer)
	}
	if answers != nil {
		told["readmit"] = answers
	}
	return nil
}

// resize asks for an active pod with a new size, which it has from then on if it is admitted.
func (h host) resize(told map[string]any, pod *v1.Pod) {
	if h.Active.Find(pod.UID) == nil {
		return
	}
	answer := h.Ask(pod, lifecycle.ResizeOperation)
	if answer.Admit {
		h.Active.Replace(pod)
	}
	h.tellAnswer(told, pod, answer)
}

func (h host) tellAnswer(told map[string]any, pod *v1.Pod, answer lifecycle.PodAdmitResult) {
	told["admitted"] = answer.Admit
	if answer.Reason != "" {
		told["reason"] = answer.Reason
	}
	if answer.Message != "" {
		told["message"] = answer.Message
	}
	if answer.Admit {
		told["containers"] = h.placements(pod)
	}
}

func (h host) tellState(told map[string]any) {
	told["shared_cpus"] = h.CPUs.State().GetDefaultCPUSet().String()
	if h.In.Kubelet.MemoryManagerPolicy == "Static" {
		told["memory_state"] = memoryState(h.Memory.State().GetMachineState())
	}
	if defects := h.defects(); len(defects) > 0 {
		told["defects"] = defects
	}
}

func memoryState(machine state.NUMANodeMap) map[string]any {
	found := map[string]any{}
	for id, node := range machine {
		free := map[string]uint64{}
		for name, table := range node.MemoryMap {
			free[string(name)] = table.Free
		}
		found[strconv.Itoa(id)] = map[string]any{"free": free, "assignments": node.NumberOfAssignments, "cells": node.Cells}
	}
	return found
}

func (h host) placements(pod *v1.Pod) []map[string]any {
	var found []map[string]any
	for _, container := range worker.AllContainers(pod) {
		found = append(found, h.placement(string(pod.UID), container.Name))
	}
	return found
}

func (h host) placement(uid, name string) map[string]any {
	hint := h.AffinityOf(uid, name)
	told := map[string]any{"numa": nil, "preferred": hint.Preferred}
	if hint.NUMANodeAffinity != nil {
		told["numa"] = hint.NUMANodeAffinity.GetBits()
	}
	found := map[string]any{"name": name, "hint": told}
	if cpus, held := h.CPUs.State().GetCPUSet(uid, name); held {
		found["cpus"] = cpus.String()
	}
	if blocks := h.MemoryOf(uid, name); len(blocks) > 0 {
		found["memory"] = memoryBlocks(blocks)
	}
	if devices := h.devicesOf(uid, name); len(devices) > 0 {
		found["devices"] = devices
	}
	return found
}

func memoryBlocks(blocks []state.Block) []map[string]any {
	blocks = slices.SortedStableFunc(slices.Values(blocks), func(a, b state.Block) int {
		return strings.Compare(string(a.Type), string(b.Type))
	})
	var found []map[string]any
	for _, block := range blocks {
		found = append(found, map[string]any{"numa": block.NUMAAffinity, "type": block.Type, "size": block.Size})
	}
	return found
}

func (h host) devicesOf(uid, name string) map[string]any {
	found := map[string]any{}
	for resource, instances := range h.Devices.GetDevices(uid, name) {
		byNUMA := map[string]int{}
		for _, one := range h.In.Devices[resource] {
			if _, held := instances[one.ID]; held {
				byNUMA[place(one.NUMA)]++
			}
		}
		found[resource] = map[string]any{"ids": sorted(instances), "by_numa": byNUMA}
	}
	return found
}

// place writes the NUMA nodes of a device.
func place(nodes []int64) string {
	if len(nodes) == 0 {
		return "none"
	}
	var parts []string
	for _, id := range nodes {
		parts = append(parts, strconv.FormatInt(id, 10))
	}
	return strings.Join(parts, ",")
}

// reserved is what the static policy keeps for the system: all CPUs that it never gives away.
func (h host) reserved() cpuset.CPUSet {
	if h.In.Kubelet.CPUManagerPolicy != "static" {
		return cpuset.New()
	}
	return h.CPUs.GetAllCPUs().Difference(h.CPUs.GetAllocatableCPUs())
}

// defects names the invariants that the real code has broken by now.
func (h host) defects() []string {
	found := map[string]bool{}
	reserved, shared := h.reserved(), h.CPUs.State().GetDefaultCPUSet()
	others := cpuset.New()
	for _, containers := range h.CPUs.State().GetCPUAssignments() {
		held := cpuset.New()
		for _, cpus := range containers {
			held = held.Union(cpus)
		}
		found["cpu_in_two_pods"] = found["cpu_in_two_pods"] || !held.Intersection(others).IsEmpty()
		found["reserved_cpu_exclusive"] = found["reserved_cpu_exclusive"] || !held.Intersection(reserved).IsEmpty()
		found["cpu_exclusive_and_shared"] = found["cpu_exclusive_and_shared"] || !held.Intersection(shared).IsEmpty()
		others = others.Union(held)
	}
	maps.DeleteFunc(found, func(_ string, broken bool) bool { return !broken })
	return sorted(found)
}

// files gives the text of the state files that were written.
func (h host) files() (map[string]any, error) {
	found := map[string]any{}
	for _, path := range []string{
		filepath.Join(h.Directory, "cpu_manager_state"),
		filepath.Join(h.Directory, "memory_manager_state"),
		filepath.Join(worker.DeviceDirectory, "kubelet_internal_checkpoint"),
	} {
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found[filepath.Base(path)] = string(text)
	}
	return found, nil
}

func sorted[V any](table map[string]V) []string {
	return slices.Sorted(maps.Keys(table))
}
