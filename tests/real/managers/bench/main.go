//go:build !k137

// Command kubelet-bench measures pod admission by the kubelet's own managers.
//
// It reads the benchmark inputs of numalign, wires the topology, device, CPU and memory managers of
// the published k8s.io/kubernetes module as the kubelet does, and prints one JSON object per row:
//
//	kubelet-bench [-mode checkpoints|memory] [-seconds 2] [-count 1000] [-limit 30s] FILE|DIRECTORY...
//
// Each row runs in a process of its own, so that a row that would not end can be stopped. Measured is
// Kubernetes 1.36: the policies of 1.37 have other signatures.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sort"
	"strings"
	"time"
)

// options are the settings of all rows, as the command line gives them.
type options struct {
	mode    string
	seconds float64
	count   int
	limit   time.Duration
	root    string
	inputs  []string
}

func main() {
	opts, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil && opts.root != "" {
		err = measureAlone(opts, os.Stdout)
	} else if err == nil {
		err = measureAll(opts, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubelet-bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var opts options
	flags := flag.NewFlagSet("kubelet-bench", flag.ContinueOnError)
	flags.StringVar(&opts.mode, "mode", modeCheckpoints, "`which` of: checkpoints (all managers write their files), memory (CPU and memory state stay in memory)")
	flags.Float64Var(&opts.seconds, "seconds", 2, "repeat an admission for at most this `number` of seconds")
	flags.IntVar(&opts.count, "count", 1000, "repeat an admission at most this `number` of times")
	flags.DurationVar(&opts.limit, "limit", 30*time.Second, "stop a row after this `time`, its prefill included")
	flags.StringVar(&opts.root, "root", "", "internal: measure one row in this process, below this `directory`")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	if opts.mode != modeCheckpoints && opts.mode != modeMemory {
		return opts, fmt.Errorf("the mode is %q; it can be %s or %s", opts.mode, modeCheckpoints, modeMemory)
	}
	var err error
	opts.inputs, err = expand(flags.Args())
	return opts, err
}

// expand gives the input files that the arguments name, in order; a directory stands for all of its rows.
func expand(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, errors.New("name the input files, or a directory of them")
	}
	var files []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, err
		}
		found := []string{arg}
		if info.IsDir() {
			found, err = rowsIn(arg)
		} else if kindOf(arg) == "" {
			err = fmt.Errorf("%s begins neither with admit- nor with fill-", arg)
		}
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	return files, nil
}

func rowsIn(directory string) ([]string, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if name := entry.Name(); filepath.Ext(name) == ".json" && kindOf(name) != "" {
			files = append(files, filepath.Join(directory, name))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s holds no admit-*.json and no fill-*.json", directory)
	}
	sort.Strings(files)
	return files, nil
}

// nameOf is the name of the row that an input gives.
func nameOf(path string) string {
	return strings.TrimSuffix(filepath.Base(path), ".json")
}

// kindOf tells from the name of an input what is measured with it; empty means nothing here.
func kindOf(path string) string {
	for _, kind := range []string{kindAdmit, kindFill} {
		if strings.HasPrefix(nameOf(path), kind+"-") {
			return kind
		}
	}
	return ""
}

func measureAll(opts options, out io.Writer) error {
	lines := json.NewEncoder(out)
	if err := lines.Encode(versions()); err != nil {
		return err
	}
	for _, path := range opts.inputs {
		row, err := measureInChild(opts, path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := lines.Encode(row); err != nil {
			return err
		}
	}
	return nil
}

// versions names what was measured, as the build itself recorded it.
func versions() map[string]string {
	found := map[string]string{"go": runtime.Version(), "kubernetes": "unknown"}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/kubernetes" {
				found["kubernetes"] = module.Version
			}
		}
	}
	return found
}
