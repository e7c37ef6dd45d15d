package worker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/go-logr/logr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
)

// The device manager's constructor knows one directory only, /var/lib/kubelet/device-plugins. So each
// scenario gets a root of its own, in memory where the machine has /dev/shm, and never meets the files of a
// kubelet that runs here. Changing the root needs root's rights or a user namespace.

const sharedMemory = "/dev/shm"

// RunChild runs this program again with "-root", a new directory and these arguments, and gives what it
// prints. The child may crash, and it is stopped with the context; prepare sees it before it starts.
func RunChild(ctx context.Context, arguments []string, prepare func(*exec.Cmd)) ([]byte, error) {
	root, err := os.MkdirTemp(scratch(), "kubelet-managers-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(root)
	// The kernel ends the child with the thread that started it; so that thread has to stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command := child(ctx, append([]string{"-root", root}, arguments...))
	prepare(command)
	return command.Output()
}

func child(ctx context.Context, arguments []string) *exec.Cmd {
	command := exec.CommandContext(ctx, "/proc/self/exe", arguments...)
	command.Env = append(os.Environ(), "GOMAXPROCS=1")
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		command.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return command
}

// scratch is where the roots are made; empty means the usual temporary directory.
func scratch() string {
	if info, err := os.Stat(sharedMemory); err == nil && info.IsDir() {
		return sharedMemory
	}
	return ""
}

// Enter makes this process ready for one scenario: it gives up its view of the filesystem, its log and the
// feature gates as they are by default.
func Enter(root string, kubelet Settings) error {
	if err := syscall.Chroot(root); err != nil {
		return fmt.Errorf("cannot make %s the root of this scenario: %w", root, err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	klog.SetLoggerWithOptions(logr.Discard(), klog.ContextualLogger(true))
	metrics.Register()
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(kubelet.FeatureGates)
}
