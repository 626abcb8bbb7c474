// Command controlplane is a Kubernetes control plane in one binary, for tests.
//
// It exists because the integration tests want the real thing (the real API server, DaemonSet controller and
// scheduler) on machines that have Go and no container engine. Each subcommand is the upstream program, unchanged,
// with upstream's own flags; "etcd" is the embedded server on one data folder.
//
//	controlplane etcd --data-dir DIR --client-url URL --peer-url URL
//	controlplane kube-apiserver|kube-controller-manager|kube-scheduler FLAGS...
//	controlplane new-signing-key > sa.key
//
// With CONTROLPLANE_EXIT_WITH_STDIN=1 the program ends when its standard input does. Whoever started it holds the
// other end of that pipe, so a test run that is killed leaves no server behind, on any platform.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	commands := map[string]func() *cobra.Command{
		"etcd":                    newEtcdCommand,
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllermanager.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"new-signing-key":         newSigningKeyCommand,
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: controlplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler|new-signing-key FLAGS...")
		os.Exit(2)
	}
	if os.Getenv("CONTROLPLANE_EXIT_WITH_STDIN") == "1" {
		go exitWithStdin()
	}
	command := commands[os.Args[1]]()
	os.Args = append(os.Args[:1], os.Args[2:]...)
	os.Exit(cli.Run(command))
}

// exitWithStdin gives no time to shut down: whoever asked for it is gone, and so is the use of the data.
func exitWithStdin() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}
