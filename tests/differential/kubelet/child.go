package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
)

// The device manager's constructor knows one directory only, /var/lib/kubelet/device-plugins. So each
// scenario gets a root of its own, in memory where the machine has /dev/shm, and never meets the files of a
// kubelet that runs here. Changing the root needs root's rights or a user namespace.

const (
	sharedMemory = "/dev/shm"
	// exitCodeOurs marks that we failed ourselves; the real code ends with 2 when it crashes.
	exitCodeOurs = 1
	// stackTime is what a child may take to tell where it hangs.
	stackTime = 5 * time.Second
)

// playInChild plays a scenario in a process of its own, which may crash, and stops it when its time is over.
func playInChild(opts options, line []byte) (result, error) {
	root, err := os.MkdirTemp(scratch(), "kubelet-replay-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(root)
	limited, cancel := context.WithTimeout(context.Background(), opts.limit)
	defer cancel()

	// The kernel ends the child with the thread that started it; so that thread has to stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command := child(limited, opts, root)
	command.Stdin = bytes.NewReader(line)
	// A Go program answers this signal with the stacks of all goroutines: where it hangs, or is only slow.
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGQUIT) }
	command.WaitDelay = stackTime
	var complaint bytes.Buffer
	command.Stderr = &complaint
	text, err := command.Output()

	found := result{Events: events(text)}
	ended := new(exec.ExitError)
	switch {
	case err == nil:
	case limited.Err() != nil:
		found.Hang, found.Stack = true, complaint.String()
	case errors.As(err, &ended) && ended.ExitCode() != exitCodeOurs:
		found.Crash = complaint.String()
	default:
		return result{}, fmt.Errorf("%w: %s", err, complaint.String())
	}
	return found, nil
}

// events splits the lines of a child; the last one may be torn.
func events(text []byte) []json.RawMessage {
	found := []json.RawMessage{}
	for _, line := range bytes.Split(text, []byte("\n")) {
		if len(line) > 0 && json.Valid(line) {
			found = append(found, line)
		}
	}
	return found
}

func child(ctx context.Context, opts options, root string) *exec.Cmd {
	command := exec.CommandContext(ctx, "/proc/self/exe", "-root", root, "-runs", fmt.Sprint(opts.runs))
	command.Env = append(os.Environ(), "GOMAXPROCS=1")
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		command.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return command
}

// scratch is where the roots of the scenarios are made; empty means the usual temporary directory.
func scratch() string {
	if info, err := os.Stat(sharedMemory); err == nil && info.IsDir() {
		return sharedMemory
	}
	return ""
}

// playAlone plays one scenario in this process, which gives up its view of the filesystem for it.
func playAlone(opts options, in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	found, err := parseScenario(text)
	if err != nil {
		return err
	}
	if err := enter(opts.root); err != nil {
		return err
	}
	klog.SetLoggerWithOptions(logr.Discard(), klog.ContextualLogger(true))
	metrics.Register()
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(found.Kubelet.FeatureGates); err != nil {
		return err
	}
	lines := json.NewEncoder(out)
	for run := range opts.runs {
		if err := play(found, run, func(one event) error { return lines.Encode(one) }); err != nil {
			return err
		}
	}
	return nil
}

func enter(root string) error {
	if err := syscall.Chroot(root); err != nil {
		return fmt.Errorf("cannot make %s the root of this scenario: %w", root, err)
	}
	return os.Chdir("/")
}
