// Command controlplane is a whole Kubernetes control plane in one program: every verb is the
// component of that name, built from Kubernetes' own packages. The tests and the demo run it, so
// that nothing in this repository has to imitate an API server or a scheduler. The verbs cel-oracle
// and cel-bench are upstream's device selectors, allocator-oracle and allocator-bench its allocator,
// to hold ours against.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go metrics on /metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info on /metrics
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var components = map[string]func() *cobra.Command{
	"allocator-bench":         newAllocatorBenchCommand,
	"allocator-oracle":        newAllocatorOracleCommand,
	"cel-bench":               newCELBenchCommand,
	"cel-oracle":              newCELOracleCommand,
	"etcd":                    newEtcdCommand,
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
}

func main() {
	if len(os.Args) < 2 || components[os.Args[1]] == nil {
		names := make([]string, 0, len(components))
		for name := range components {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "usage: controlplane {%s} [flags]\n", strings.Join(names, "|"))
		os.Exit(2)
	}
	name := os.Args[1]
	// The components read os.Args themselves (kubectl looks for plugins there), so the verb becomes the program's name.
	os.Args = os.Args[1:]
	command := components[name]()
	if name == "kubectl" {
		// kubectl words its errors and chooses its exit code itself.
		kubectlutil.CheckErr(cli.RunNoErrOutput(command))
		return
	}
	os.Exit(cli.Run(command))
}
