//go:build !k137

package main

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"numalign/tests/real/managers/worker"
)

// host is a worker that admits many pods.
type host struct{ *worker.Worker }

// start makes a host whose state files lie apart from those of the hosts with other numbers.
func start(in worker.Scenario, mode string, number int) (host, error) {
	provide := worker.Managers
	if mode == modeMemory {
		provide = policiesInMemory
	}
	made, err := worker.New(in, fmt.Sprintf("/state-%d", number), provide)
	return host{made}, err
}

// admit makes the pod active and asks the topology manager for it, as the kubelet does for a new pod.
func (h host) admit(pod *v1.Pod) bool {
	h.Active.Add(pod)
	return h.Ask(pod, lifecycle.AddOperation).Admit
}

// admitAll admits one pod after the other, removes at once what was refused, and gives the number that stayed.
func (h host) admitAll(pods []*v1.Pod) int {
	admitted := 0
	for _, pod := range pods {
		if h.admit(pod) {
			admitted++
		} else {
			h.Drop(pod)
		}
	}
	return admitted
}

// podsOf gives the pods of all steps, as the API server would have completed them.
func podsOf(in worker.Scenario) ([]*v1.Pod, error) {
	if len(in.Steps) == 0 {
		return nil, errors.New("there is no step to run")
	}
	pods := make([]*v1.Pod, 0, len(in.Steps))
	for number, step := range in.Steps {
		if step.Admit == nil {
			return nil, fmt.Errorf("step %d admits no pod", number)
		}
		pods = append(pods, step.Admit.Pod())
	}
	return pods, nil
}
