//go:build !k137

package main

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"numalign/tests/real/managers/worker"
)

const (
	modeCheckpoints = "checkpoints"
	modeMemory      = "memory"
	kindAdmit       = "admit"
	kindFill        = "fill"
	fills           = 3
)

// row is the result of one input, and one line of the output. Times are in nanoseconds.
type row struct {
	Row       string  `json:"row"`
	Mode      string  `json:"mode"`
	Kind      string  `json:"kind"`
	AdmitNS   []int64 `json:"admit_ns,omitempty"`
	RemoveNS  []int64 `json:"remove_ns,omitempty"`
	TotalNS   []int64 `json:"total_ns,omitempty"`
	Admitted  any     `json:"admitted,omitempty"` // whether every admission succeeded, or the number of pods of a fill
	Timeout   bool    `json:"timeout,omitempty"`
	ElapsedNS int64   `json:"elapsed_ns,omitempty"`
}

func measure(kind string, in worker.Scenario, opts options) (row, error) {
	if kind == kindFill {
		return measureFill(in, opts)
	}
	return measureAdmit(in, opts)
}

// measureAdmit runs all steps but the last, then admits and removes the last pod again and again, each time with a new uid.
func measureAdmit(in worker.Scenario, opts options) (row, error) {
	pods, err := podsOf(in)
	if err != nil {
		return row{}, err
	}
	host, err := start(in, opts.mode, 0)
	if err != nil {
		return row{}, err
	}
	last := len(pods) - 1
	host.admitAll(pods[:last])
	measured := row{Mode: opts.mode, Kind: kindAdmit}
	admitted := true
	for began, i := time.Now(), 0; i == 0 || i < opts.count && time.Since(began).Seconds() < opts.seconds; i++ {
		pod := renewed(pods[last], i)
		start := time.Now()
		answer := host.admit(pod)
		middle := time.Now()
		host.Drop(pod)
		end := time.Now()
		measured.AdmitNS = append(measured.AdmitNS, middle.Sub(start).Nanoseconds())
		measured.RemoveNS = append(measured.RemoveNS, end.Sub(middle).Nanoseconds())
		admitted = admitted && answer
	}
	measured.Admitted = admitted
	return measured, host.Stop()
}

func renewed(pod *v1.Pod, number int) *v1.Pod {
	fresh := pod.DeepCopy()
	fresh.UID = types.UID(fmt.Sprintf("%s-%d", pod.UID, number))
	return fresh
}

// measureFill admits all pods on fresh managers, from the first to the last, a few times.
func measureFill(in worker.Scenario, opts options) (row, error) {
	pods, err := podsOf(in)
	if err != nil {
		return row{}, err
	}
	measured := row{Mode: opts.mode, Kind: kindFill}
	for number := range fills {
		host, err := start(in, opts.mode, number)
		if err != nil {
			return row{}, err
		}
		start := time.Now()
		measured.Admitted = host.admitAll(pods)
		measured.TotalNS = append(measured.TotalNS, time.Since(start).Nanoseconds())
		if err := host.Stop(); err != nil {
			return row{}, err
		}
	}
	return measured, nil
}
