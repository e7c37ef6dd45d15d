//go:build !k137

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
	"syscall"
	"time"

	"numalign/tests/real/managers/worker"
)

// measureInChild runs one row in a process of its own and stops it when its time is over.
func measureInChild(opts options, path string) (row, error) {
	interrupted, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	limited, cancel := context.WithTimeout(interrupted, opts.limit)
	defer cancel()
	arguments := []string{"-mode", opts.mode, "-seconds", fmt.Sprint(opts.seconds), "-count", fmt.Sprint(opts.count), path}
	started := time.Now()
	text, err := worker.RunChild(limited, arguments, func(command *exec.Cmd) { command.Stderr = os.Stderr })
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

func timedOut(opts options, path string, elapsed time.Duration) row {
	return row{Row: nameOf(path), Mode: opts.mode, Kind: kindOf(path), Timeout: true, ElapsedNS: elapsed.Nanoseconds()}
}

// measureAlone measures one row in this process, which gives up its view of the filesystem for it.
func measureAlone(opts options, out io.Writer) error {
	if len(opts.inputs) != 1 {
		return errors.New("-root takes one input")
	}
	path := opts.inputs[0]
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	input, err := worker.ParseScenario(text)
	if err != nil {
		return err
	}
	if err := worker.Enter(opts.root, input.Kubelet); err != nil {
		return err
	}
	measured, err := measure(kindOf(path), input, opts)
	if err != nil {
		return err
	}
	measured.Row = nameOf(path)
	return json.NewEncoder(out).Encode(measured)
}
