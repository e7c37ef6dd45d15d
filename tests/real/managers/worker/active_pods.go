package worker

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ActivePods is the list that the kubelet's pod manager would keep. The CPU manager's background loop reads it too.
type ActivePods struct {
	mutex sync.Mutex
	pods  []*v1.Pod
}

// List gives the pods as they are now.
func (a *ActivePods) List() []*v1.Pod {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return slices.Clone(a.pods)
}

// Find gives the active pod with this uid, if any.
func (a *ActivePods) Find(uid types.UID) *v1.Pod {
	for _, pod := range a.List() {
		if pod.UID == uid {
			return pod
		}
	}
	return nil
}

// Add makes a pod active.
func (a *ActivePods) Add(pod *v1.Pod) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.pods = append(a.pods, pod)
}

// Replace gives an active pod another size.
func (a *ActivePods) Replace(pod *v1.Pod) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for i, old := range a.pods {
		if old.UID == pod.UID {
			a.pods[i] = pod
		}
	}
}

func (a *ActivePods) remove(gone *v1.Pod) {
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
