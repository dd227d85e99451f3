// Command kubelet is Kubernetes' own, which can be told to behave as an older one.
//
// Kubernetes has no flag for that: the kubelet's feature gates are set by whoever builds the command. So the
// environment variable EMULATED_VERSION ("1.35") sets them, before there is a command, to what they are in that version,
// and the node reports that version as its kubelet's. Bugs and algorithms stay those of the version it is built from.
package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	_ "unsafe" // go:linkname

	utilversion "k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go metrics on /metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info on /metrics
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// The version that a node's status shows. SetDynamicVersion refuses another minor version, and a flag for the linker
// would need one program a version.
//
//go:linkname reportedVersion k8s.io/component-base/version.dynamicGitVersion
var reportedVersion atomic.Value

func main() {
	if text := os.Getenv("EMULATED_VERSION"); text != "" {
		if err := emulate(text); err != nil {
			fmt.Fprintf(os.Stderr, "EMULATED_VERSION=%s: %v\n", text, err)
			os.Exit(2)
		}
	}
	os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
}

func emulate(text string) error {
	version, err := utilversion.ParseMajorMinor(text)
	if err != nil {
		return err
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetEmulationVersion(version); err != nil {
		return err
	}
	reportedVersion.Store("v" + version.String() + ".0")
	return nil
}
