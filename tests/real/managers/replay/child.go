package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"numalign/tests/real/managers/worker"
)

const (
	// exitCodeOurs marks that we failed ourselves; the real code ends with 2 when it crashes.
	exitCodeOurs = 1
	// stackTime is what a child may take to tell where it hangs.
	stackTime = 5 * time.Second
)

// playInChild plays a scenario in a process of its own, which may crash, and stops it when its time is over.
func playInChild(opts options, line []byte) (result, error) {
	limited, cancel := context.WithTimeout(context.Background(), opts.limit)
	defer cancel()
	var complaint bytes.Buffer
	text, err := worker.RunChild(limited, []string{"-runs", fmt.Sprint(opts.runs)}, func(command *exec.Cmd) {
		command.Stdin = bytes.NewReader(line)
		command.Stderr = &complaint
		// A Go program answers this signal with the stacks of all goroutines: where it hangs, or is only slow.
		command.Cancel = func() error { return command.Process.Signal(syscall.SIGQUIT) }
		command.WaitDelay = stackTime
	})

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

// playAlone plays one scenario in this process, which gives up its view of the filesystem for it.
func playAlone(opts options, in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	found, err := worker.ParseScenario(text)
	if err != nil {
		return err
	}
	if err := worker.Enter(opts.root, found.Kubelet); err != nil {
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
