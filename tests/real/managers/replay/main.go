// Command kubelet-replay runs scenarios through the kubelet's own managers.
//
// It reads one scenario per line of its input, in the format of the reference vectors, wires the topology,
// device, CPU and memory managers of the published k8s.io/kubernetes module as the kubelet does, and
// prints one JSON object per scenario: the events of each run, in order, and how the process of
// the scenario ended when it did not end well.
//
//	kubelet-replay [-runs 4] [-limit 20s] < scenarios.jsonl
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

const lineBytesMax = 16 << 20

// options are the settings of all scenarios, as the command line gives them.
type options struct {
	runs  int
	limit time.Duration
	root  string
}

func main() {
	var opts options
	flag.IntVar(&opts.runs, "runs", 4, "play each scenario this `number` of times")
	flag.DurationVar(&opts.limit, "limit", 20*time.Second, "stop a scenario after this `time`")
	flag.StringVar(&opts.root, "root", "", "internal: play one scenario in this process, below this `directory`")
	flag.Parse()
	work := playAll
	if opts.root != "" {
		work = playAlone
	}
	if err := work(opts, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet-replay:", err)
		os.Exit(1)
	}
}

// result is what became of one scenario.
type result struct {
	Events []json.RawMessage `json:"events"`
	Hang   bool              `json:"hang,omitempty"`
	Stack  string            `json:"stack,omitempty"` // where it hung
	Crash  string            `json:"crash,omitempty"`
}

func playAll(opts options, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, lineBytesMax)
	results := json.NewEncoder(out)
	for lines.Scan() {
		found, err := playInChild(opts, lines.Bytes())
		if err != nil {
			return err
		}
		if err := results.Encode(found); err != nil {
			return err
		}
	}
	return lines.Err()
}
