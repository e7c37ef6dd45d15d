package worker

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// localPlugin is a device plugin in this process. The device manager takes it through the same exported
// call that its registration server uses, and asks it the same questions, but no time is spent on a
// socket: decisions are compared and measured, not message passing.
type localPlugin struct {
	pluginapi.DevicePluginClient // the calls that admission never makes
	resource                     string
	prefers                      bool
}

// API gives the plugin itself, which answers in the place of a gRPC client.
func (p *localPlugin) API() pluginapi.DevicePluginClient { return p }

// Resource names what the plugin serves.
func (p *localPlugin) Resource() string { return p.resource }

// SocketPath is empty, for there is no socket.
func (p *localPlugin) SocketPath() string { return "" }

// GetDevicePluginOptions says whether the plugin wants to be asked which devices it prefers.
func (p *localPlugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty, ...grpc.CallOption) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: p.prefers}, nil
}

// GetPreferredAllocation takes what must be included, then the first of the others in the order of their names.
func (p *localPlugin) GetPreferredAllocation(_ context.Context, asked *pluginapi.PreferredAllocationRequest, _ ...grpc.CallOption) (*pluginapi.PreferredAllocationResponse, error) {
	answer := &pluginapi.PreferredAllocationResponse{}
	for _, wish := range asked.ContainerRequests {
		chosen := slices.Clone(wish.MustIncludeDeviceIDs)
		for _, id := range slices.Sorted(slices.Values(wish.AvailableDeviceIDs)) {
			if len(chosen) >= int(wish.AllocationSize) {
				break
			}
			if !slices.Contains(chosen, id) {
				chosen = append(chosen, id)
			}
		}
		answer.ContainerResponses = append(answer.ContainerResponses,
			&pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: chosen})
	}
	return answer, nil
}

// Allocate agrees to every request and asks nothing of the container.
func (p *localPlugin) Allocate(_ context.Context, asked *pluginapi.AllocateRequest, _ ...grpc.CallOption) (*pluginapi.AllocateResponse, error) {
	answer := &pluginapi.AllocateResponse{}
	for range asked.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, &pluginapi.ContainerAllocateResponse{})
	}
	return answer, nil
}
