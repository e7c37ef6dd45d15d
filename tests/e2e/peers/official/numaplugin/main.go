// numaplugin is a device plugin on the official generated API whose devices sit on NUMA nodes.
//
//	numaplugin DIR vendor.com/gpu [-prestart] [-watched] [-plain] [-socket NAME] g0=0 g1=1 g2=0,1 g3=
//
// Each device is NAME=NODES: several nodes, none (an empty list) or "-" for no topology at all. It
// registers with DIR/kubelet.sock and does so again whenever that socket is made anew, or with -watched
// waits for the plugin watcher to find its socket in DIR. Every line on
// standard input is an order; every line on standard output is a JSON object about what happened:
//
//	health NAME healthy|sick     report the whole list with this device changed
//	devices NAME=NODES ...       report another list
//	register                     register once more on the same socket
//	refuse TEXT                  answer the next Allocate with an error of this text
//	stop                         close the server and end
//
// As preferred allocation it answers the devices that must be included and then the highest names; with
// -plain the lowest, and containers get an environment variable and nothing else.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	watcher "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	watcher.UnimplementedRegistrationServer
	dir, resource, socket string
	prestart, watched     bool
	plain                 bool

	mu      sync.Mutex
	devices []*api.Device
	changed chan struct{} // closed and replaced at every change
	refusal string
}

type said map[string]any

var out sync.Mutex

func say(what said) {
	out.Lock()
	defer out.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(what)
}

func die(err error) {
	say(said{"event": "failed", "error": err.Error()})
	os.Exit(1)
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{PreStartRequired: p.prestart, GetPreferredAllocationAvailable: true}, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	for {
		p.mu.Lock()
		devices, changed := p.devices, p.changed
		p.mu.Unlock()
		if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		say(said{"event": "sent", "devices": len(devices)})
		select {
		case <-changed:
		case <-stream.Context().Done():
			say(said{"event": "watch ended"})
			return nil
		}
	}
}

func (p *plugin) GetPreferredAllocation(_ context.Context, r *api.PreferredAllocationRequest) (*api.PreferredAllocationResponse, error) {
	answer := &api.PreferredAllocationResponse{}
	for _, c := range r.ContainerRequests {
		say(said{"event": "preferred", "available": c.AvailableDeviceIDs, "must": c.MustIncludeDeviceIDs, "size": c.AllocationSize})
		chosen := append([]string{}, c.MustIncludeDeviceIDs...)
		rest := append([]string{}, c.AvailableDeviceIDs...)
		if p.plain {
			sort.Strings(rest)
		} else {
			sort.Sort(sort.Reverse(sort.StringSlice(rest)))
		}
		for _, id := range rest {
			if len(chosen) < int(c.AllocationSize) && !contains(chosen, id) {
				chosen = append(chosen, id)
			}
		}
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerPreferredAllocationResponse{DeviceIDs: chosen})
	}
	return answer, nil
}

func (p *plugin) Allocate(_ context.Context, r *api.AllocateRequest) (*api.AllocateResponse, error) {
	p.mu.Lock()
	refusal := p.refusal
	p.refusal = ""
	p.mu.Unlock()
	if refusal != "" {
		return nil, errors.New(refusal)
	}
	answer := &api.AllocateResponse{}
	for _, c := range r.ContainerRequests {
		say(said{"event": "allocate", "ids": c.DevicesIds})
		one := &api.ContainerAllocateResponse{Envs: map[string]string{"NUMAPLUGIN_DEVICES": strings.Join(c.DevicesIds, ",")}}
		answer.ContainerResponses = append(answer.ContainerResponses, one)
		if p.plain {
			continue
		}
		one.Annotations = map[string]string{"numaplugin/count": strconv.Itoa(len(c.DevicesIds))}
		for _, id := range c.DevicesIds {
			one.Devices = append(one.Devices, &api.DeviceSpec{ContainerPath: "/dev/" + id, HostPath: "/dev/null", Permissions: "rw"})
			one.Mounts = append(one.Mounts, &api.Mount{ContainerPath: "/run/" + id, HostPath: "/tmp", ReadOnly: true})
			one.CdiDevices = append(one.CdiDevices, &api.CDIDevice{Name: p.resource + "=" + id})
		}
	}
	return answer, nil
}

func (p *plugin) PreStartContainer(_ context.Context, r *api.PreStartContainerRequest) (*api.PreStartContainerResponse, error) {
	say(said{"event": "prestart", "ids": r.DevicesIds})
	return &api.PreStartContainerResponse{}, nil
}

func (p *plugin) GetInfo(context.Context, *watcher.InfoRequest) (*watcher.PluginInfo, error) {
	return &watcher.PluginInfo{Type: watcher.DevicePlugin, Name: p.resource, SupportedVersions: []string{api.Version}}, nil
}

func (p *plugin) NotifyRegistrationStatus(_ context.Context, s *watcher.RegistrationStatus) (*watcher.RegistrationStatusResponse, error) {
	say(said{"event": "notified", "registered": s.PluginRegistered, "error": s.Error})
	return &watcher.RegistrationStatusResponse{}, nil
}

func contains(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}

func parsed(words []string) []*api.Device {
	var devices []*api.Device
	for _, word := range words {
		name, nodes, _ := strings.Cut(word, "=")
		d := &api.Device{ID: name, Health: api.Healthy}
		if nodes != "-" {
			d.Topology = &api.TopologyInfo{}
			for _, n := range strings.Split(nodes, ",") {
				if id, err := strconv.ParseInt(n, 10, 64); err == nil {
					d.Topology.Nodes = append(d.Topology.Nodes, &api.NUMANode{ID: id})
				}
			}
		}
		devices = append(devices, d)
	}
	return devices
}

func (p *plugin) report(devices []*api.Device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devices = devices
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *plugin) withHealth(name, health string) []*api.Device {
	p.mu.Lock()
	defer p.mu.Unlock()
	var devices []*api.Device
	for _, d := range p.devices {
		copied := &api.Device{ID: d.ID, Health: d.Health, Topology: d.Topology}
		if d.ID == name {
			copied.Health = map[string]string{"healthy": api.Healthy, "sick": api.Unhealthy}[health]
		}
		devices = append(devices, copied)
	}
	return devices
}

func (p *plugin) serve() *grpc.Server {
	path := filepath.Join(p.dir, p.socket)
	_ = os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		die(err)
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	if p.watched {
		watcher.RegisterRegistrationServer(server, p)
	}
	go func() { _ = server.Serve(l) }()
	return server
}

func (p *plugin) register() {
	c, err := grpc.NewClient("unix://"+filepath.Join(p.dir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		die(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err = api.NewRegistrationClient(c).Register(ctx,
		&api.RegisterRequest{Version: api.Version, Endpoint: p.socket, ResourceName: p.resource}, grpc.WaitForReady(true))
	if err != nil {
		say(said{"event": "refused", "error": err.Error()})
		return
	}
	say(said{"event": "registered", "resource": p.resource})
}

// The kubelet removes all sockets when it starts: serve and register again once that happened.
func (p *plugin) rejoin(server *grpc.Server) *grpc.Server {
	if _, err := os.Stat(filepath.Join(p.dir, p.socket)); err == nil {
		return server
	}
	if _, err := os.Stat(filepath.Join(p.dir, "kubelet.sock")); err != nil {
		return server
	}
	say(said{"event": "socket gone"})
	server.Stop()
	server = p.serve()
	p.register()
	return server
}

func main() {
	if len(os.Args) < 3 {
		die(errors.New("usage: numaplugin DIR RESOURCE [-prestart] [-watched] [-plain] [-socket NAME] NAME=NODES..."))
	}
	p := &plugin{dir: os.Args[1], resource: os.Args[2], changed: make(chan struct{})}
	p.socket = strings.ReplaceAll(p.resource, "/", "_") + ".sock"
	words := os.Args[3:]
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		switch words[0] {
		case "-prestart":
			p.prestart = true
		case "-watched":
			p.watched = true
		case "-plain":
			p.plain = true
		default:
			p.socket, words = words[1], words[1:]
		}
		words = words[1:]
	}
	p.devices = parsed(words)
	server := p.serve()
	if !p.watched {
		p.register()
	}
	orders := make(chan string)
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			orders <- lines.Text()
		}
		close(orders)
	}()
	for {
		select {
		case order, open := <-orders:
			words := strings.Fields(order)
			switch {
			case !open || order == "stop":
				server.Stop()
				_ = os.Remove(filepath.Join(p.dir, p.socket))
				return
			case words[0] == "health":
				p.report(p.withHealth(words[1], words[2]))
			case words[0] == "devices":
				p.report(parsed(words[1:]))
			case words[0] == "register":
				p.register()
			case words[0] == "refuse":
				p.mu.Lock()
				p.refusal = strings.TrimPrefix(order, "refuse ")
				p.mu.Unlock()
				say(said{"event": "will refuse"})
			default:
				die(fmt.Errorf("unknown order %q", order))
			}
		case <-time.After(100 * time.Millisecond):
			if !p.watched {
				server = p.rejoin(server)
			}
		}
	}
}
