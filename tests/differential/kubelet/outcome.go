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

// play runs the whole scenario once on fresh managers and tells each event as soon as it is known.
func play(in scenario, run int, tell func(event) error) error {
	n, err := newNode(in, fmt.Sprintf("/state-%d", run))
	if refused := new(phaseError); errors.As(err, &refused) {
		return tell(event{Run: run, Start: &startOutcome{Phase: refused.phase, Error: refused.err.Error()}})
	}
	if err != nil {
		return err
	}
	begun := &startOutcome{Reserved: n.reserved().String(), Shared: n.cpus.State().GetDefaultCPUSet().String()}
	if err := tell(event{Run: run, Start: begun}); err != nil {
		return err
	}
	for _, one := range in.Steps {
		told, goesOn, err := n.do(one)
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
	files, err := n.files()
	if err != nil {
		return err
	}
	return errors.Join(tell(event{Run: run, Files: files}), n.stop())
}

// do carries out one step; after a restart that failed nothing goes on.
func (n *node) do(one step) (told map[string]any, goesOn bool, err error) {
	told = map[string]any{}
	switch {
	case one.Admit != nil:
		pod := one.Admit.pod()
		n.active.add(pod)
		told["op"], told["uid"], told["qos"] = "admit", pod.UID, pod.Status.QOSClass
		n.tellAnswer(told, pod, n.admit(pod))
	case one.Resize != nil:
		told["op"], told["uid"] = "resize", one.Resize.UID
		n.resize(told, one.Resize.pod())
	case one.Remove != nil:
		told["op"], told["uid"] = "remove", *one.Remove
		err = n.remove(*one.Remove)
	case one.Start != nil:
		told["op"], told["uid"] = "start", *one.Start
		if pod := n.active.find(*one.Start); pod != nil {
			n.start(pod)
			told["containers"] = n.placements(pod)
		}
	case one.Restart:
		told["op"] = "restart"
		if err = n.restart(told); err != nil || told["error"] != nil {
			return told, false, err
		}
	case one.DeviceHealth != nil:
		told["op"] = "device_health"
		n.setHealth(*one.DeviceHealth)
	default:
		err = errors.New("a step that does nothing")
	}
	n.tellState(told)
	return told, true, err
}

func (n *node) restart(told map[string]any) error {
	if err := n.stop(); err != nil {
		return err
	}
	err := n.boot()
	if refused := new(phaseError); errors.As(err, &refused) {
		told["error"] = refused.Error()
		return nil
	}
	if err != nil {
		return err
	}
	var answers []map[string]any
	for _, pod := range n.active.list() {
		answer := map[string]any{"uid": pod.UID}
		n.tellAnswer(answer, pod, n.admit(pod))
		answers = append(answers, answer)
	}
	if answers != nil {
		told["readmit"] = answers
	}
	return nil
}

// resize asks for an active pod with a new size, which it has from then on if it is admitted.
func (n *node) resize(told map[string]any, pod *v1.Pod) {
	if n.active.find(pod.UID) == nil {
		return
	}
	answer := n.ask(pod, lifecycle.ResizeOperation)
	if answer.Admit {
		n.active.replace(pod)
	}
	n.tellAnswer(told, pod, answer)
}

func (n *node) tellAnswer(told map[string]any, pod *v1.Pod, answer lifecycle.PodAdmitResult) {
	told["admitted"] = answer.Admit
	if answer.Reason != "" {
		told["reason"] = answer.Reason
	}
	if answer.Message != "" {
		told["message"] = answer.Message
	}
	if answer.Admit {
		told["containers"] = n.placements(pod)
	}
}

func (n *node) tellState(told map[string]any) {
	told["shared_cpus"] = n.cpus.State().GetDefaultCPUSet().String()
	if n.in.Kubelet.MemoryManagerPolicy == "Static" {
		told["memory_state"] = memoryState(n.memory.State().GetMachineState())
	}
	if defects := n.defects(); len(defects) > 0 {
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

func (n *node) placements(pod *v1.Pod) []map[string]any {
	var found []map[string]any
	for _, container := range allContainers(pod) {
		found = append(found, n.placement(string(pod.UID), container.Name))
	}
	return found
}

func (n *node) placement(uid, name string) map[string]any {
	hint := n.affinityOf(uid, name)
	told := map[string]any{"numa": nil, "preferred": hint.Preferred}
	if hint.NUMANodeAffinity != nil {
		told["numa"] = hint.NUMANodeAffinity.GetBits()
	}
	found := map[string]any{"name": name, "hint": told}
	if cpus, held := n.cpus.State().GetCPUSet(uid, name); held {
		found["cpus"] = cpus.String()
	}
	if blocks := n.memoryOf(uid, name); len(blocks) > 0 {
		found["memory"] = memoryBlocks(blocks)
	}
	if devices := n.devicesOf(uid, name); len(devices) > 0 {
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

func (n *node) devicesOf(uid, name string) map[string]any {
	found := map[string]any{}
	for resource, instances := range n.devices.GetDevices(uid, name) {
		byNUMA := map[string]int{}
		for _, one := range n.in.Devices[resource] {
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
func (n *node) reserved() cpuset.CPUSet {
	if n.in.Kubelet.CPUManagerPolicy != "static" {
		return cpuset.New()
	}
	return n.cpus.GetAllCPUs().Difference(n.cpus.GetAllocatableCPUs())
}

// defects names the invariants that the real code has broken by now.
func (n *node) defects() []string {
	found := map[string]bool{}
	reserved, shared := n.reserved(), n.cpus.State().GetDefaultCPUSet()
	others := cpuset.New()
	for _, containers := range n.cpus.State().GetCPUAssignments() {
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
func (n *node) files() (map[string]any, error) {
	found := map[string]any{}
	for _, path := range []string{
		filepath.Join(n.directory, "cpu_manager_state"),
		filepath.Join(n.directory, "memory_manager_state"),
		filepath.Join(deviceDirectory, "kubelet_internal_checkpoint"),
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
