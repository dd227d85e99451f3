// Command device-plugin offers devices by the kubelet's device plugin API, as a node does that has no DRA driver yet.
//
// A container sees each device it was given as an environment variable:
//
//	PLUGIN_DEVICE_0=example.com/gpu/0
//
// The plugin registers again after the kubelet has been restarted. When it ends, the node offers 0 of the resource.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const pollInterval = 100 * time.Millisecond

func main() {
	klog.InitFlags(nil)
	resource := flag.String("resource", "example.com/gpu", "the extended resource's name")
	count := flag.Int("devices", 1, "how many there are")
	directory := flag.String("directory", pluginapi.DevicePluginPath, "where the kubelet's socket is")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	plugin := &plugin{resource: *resource, count: *count, directory: *directory, ended: ctx.Done()}
	for ctx.Err() == nil {
		if err := plugin.serve(ctx); err != nil {
			klog.InfoS("Not registered, trying again", "err", err)
			time.Sleep(pollInterval)
		}
	}
}

type plugin struct {
	pluginapi.UnimplementedDevicePluginServer

	resource  string
	count     int
	directory string
	ended     <-chan struct{}
}

func (p *plugin) socket() string {
	return filepath.Join(p.directory, strings.ReplaceAll(p.resource, "/", "_")+".sock")
}

// serve registers and serves until the end, or until a kubelet that has started anew has removed the socket.
func (p *plugin) serve(ctx context.Context) error {
	if err := os.Remove(p.socket()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", p.socket())
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(server, p)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer server.Stop()
	if err := p.register(ctx); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(p.socket()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			return err
		case <-time.After(pollInterval):
		}
	}
}

func (p *plugin) register(ctx context.Context) error {
	kubelet := "unix://" + filepath.Join(p.directory, filepath.Base(pluginapi.KubeletSocket))
	connection, err := grpc.NewClient(kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = pluginapi.NewRegistrationClient(connection).Register(ctx, &pluginapi.RegisterRequest{
		Version:      pluginapi.Version,
		Endpoint:     filepath.Base(p.socket()),
		ResourceName: p.resource,
	})
	return err
}

func (p *plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *pluginapi.Empty, stream pluginapi.DevicePlugin_ListAndWatchServer) error {
	response := &pluginapi.ListAndWatchResponse{}
	for number := range p.count {
		device := &pluginapi.Device{ID: fmt.Sprint(number), Health: pluginapi.Healthy}
		response.Devices = append(response.Devices, device)
	}
	if err := stream.Send(response); err != nil {
		return err
	}
	select {
	case <-p.ended:
	case <-stream.Context().Done():
	}
	return nil
}

func (p *plugin) Allocate(_ context.Context, asked *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	response := &pluginapi.AllocateResponse{}
	for _, container := range asked.ContainerRequests {
		variables := map[string]string{}
		for _, id := range container.DevicesIds {
			variables["PLUGIN_DEVICE_"+id] = p.resource + "/" + id
		}
		response.ContainerResponses = append(
			response.ContainerResponses, &pluginapi.ContainerAllocateResponse{Envs: variables},
		)
	}
	return response, nil
}
