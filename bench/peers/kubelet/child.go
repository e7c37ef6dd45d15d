package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
)

// The device manager's constructor knows one directory only, /var/lib/kubelet/device-plugins. So each
// row gets a root of its own, in memory where the machine has /dev/shm, and never meets the files of a
// kubelet that runs here. Changing the root needs root's rights or a user namespace.

const sharedMemory = "/dev/shm"

// measureInChild runs one row in a process of its own and stops it when its time is over.
func measureInChild(opts options, path string) (row, error) {
	root, err := os.MkdirTemp(scratch(), "kubelet-bench-")
	if err != nil {
		return row{}, err
	}
	defer os.RemoveAll(root)

	interrupted, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	limited, cancel := context.WithTimeout(interrupted, opts.limit)
	defer cancel()

	// The kernel ends the child with the thread that started it; so that thread has to stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	started := time.Now()
	text, err := child(limited, opts, root, path).Output()
	if interrupted.Err() != nil {
		return row{}, errors.New("interrupted")
	}
	if err != nil && limited.Err() != nil {
		return timedOut(opts, path, time.Since(started)), nil
	}
	if ended := new(exec.ExitError); errors.As(err, &ended) {
		return row{}, fmt.Errorf("the row failed: %w", err) // its process has said why
	}
	if err != nil {
		return row{}, fmt.Errorf("cannot give the row a process of its own; without root's rights that takes user namespaces: %w", err)
	}
	var measured row
	return measured, json.Unmarshal(text, &measured)
}

func child(ctx context.Context, opts options, root, path string) *exec.Cmd {
	command := exec.CommandContext(ctx, "/proc/self/exe", "-root", root, "-mode", opts.mode,
		"-seconds", fmt.Sprint(opts.seconds), "-count", fmt.Sprint(opts.count), path)
	command.Env = append(os.Environ(), "GOMAXPROCS=1")
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		command.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return command
}

// scratch is where the roots of the rows are made; empty means the usual temporary directory.
func scratch() string {
	if info, err := os.Stat(sharedMemory); err == nil && info.IsDir() {
		return sharedMemory
	}
	return ""
}

func timedOut(opts options, path string, elapsed time.Duration) row {
	return row{Row: nameOf(path), Mode: opts.mode, Kind: kindOf(path), Timeout: true, ElapsedNS: elapsed.Nanoseconds()}
}

// measureAlone measures one row in this process, which gives up its view of the filesystem for it.
func measureAlone(opts options, out io.Writer) error {
	if len(opts.inputs) != 1 {
		return errors.New("-root takes one input")
	}
	path := opts.inputs[0]
	input, err := readInput(path)
	if err != nil {
		return err
	}
	if err := enter(opts.root); err != nil {
		return err
	}
	klog.SetLoggerWithOptions(logr.Discard(), klog.ContextualLogger(true))
	metrics.Register()
	measured, err := measure(kindOf(path), input, opts)
	if err != nil {
		return err
	}
	measured.Row = nameOf(path)
	return json.NewEncoder(out).Encode(measured)
}

func enter(root string) error {
	if err := syscall.Chroot(root); err != nil {
		return fmt.Errorf("cannot make %s the root of this row: %w", root, err)
	}
	return os.Chdir("/")
}
