// Command dra-driver is a DRA driver whose devices exist in a file.
//
// The file (see state) says what the driver publishes, how healthy it is and how preparing goes; it is read again
// whenever it is replaced, so a test changes the hardware by writing it. A container sees each device it was given as an
// environment variable:
//
//	DEVICE_GPU_EXAMPLE_COM_NODE_GPU_0=gpu.example.com/node/gpu-0
//
// or with the share's ID at the end where a device is given out in shares.
package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const pollInterval = 50 * time.Millisecond

func main() {
	klog.InitFlags(nil)
	name := flag.String("driver", "", "the driver's name")
	node := flag.String("node", "", "the node's name")
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	kubeletRoot := flag.String("kubelet-root", "", "the kubelet's --root-dir")
	cdi := flag.String("cdi", "", "the directory that the container runtime reads CDI specs from")
	file := flag.String("state", "", "the file that says what devices there are")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *name, *node, *kubeconfig, *kubeletRoot, *cdi, *file); err != nil {
		klog.ErrorS(err, "The driver ends")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}

func run(ctx context.Context, name, node, kubeconfig, kubeletRoot, cdi, file string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	data, registry := filepath.Join(kubeletRoot, "plugins", name), filepath.Join(kubeletRoot, "plugins_registry")
	for _, directory := range []string{data, registry} {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return err
		}
	}
	driver := &driver{name: name, node: node, file: file, specs: specs{directory: cdi, driver: name}}
	plugin, err := kubeletplugin.Start(ctx, driver,
		kubeletplugin.DriverName(name),
		kubeletplugin.NodeName(node),
		kubeletplugin.KubeClient(client),
		kubeletplugin.RegistrarDirectoryPath(registry),
		kubeletplugin.PluginDataDirectoryPath(data),
	)
	if err != nil {
		return err
	}
	defer plugin.Stop()

	var published time.Time
	var registered *registerapi.RegistrationStatus
	for {
		if status := plugin.RegistrationStatus(); status != registered {
			registered = status
			klog.InfoS("Registered with the kubelet") // RealNode waits for these words
		}
		// A file that is half written or wrong is a mistake of the test's: say so, and go on with what was.
		if changed := modified(file); !changed.Equal(published) {
			published = changed
			if now, err := read(file); err != nil {
				klog.ErrorS(err, "The state cannot be read")
			} else if err := plugin.PublishResources(ctx, now.resources(node)); err != nil {
				klog.ErrorS(err, "The devices cannot be published")
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pollInterval):
		}
	}
}
