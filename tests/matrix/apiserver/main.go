// Command apiserver is a real Kubernetes control plane without nodes, for tests on one machine: the
// published API server and controllers, and etcd as its store, each a sub-command and a process of its own.
package main

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

const ready = 60 * time.Second

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("say what to run: etcd FOLDER URL PEER-URL, kube-apiserver or kube-controller-manager"))
	}
	command := os.Args[1]
	os.Args = os.Args[1:]
	switch command {
	case "etcd":
		store(os.Args[1:])
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllers.NewControllerManagerCommand()))
	default:
		fail(fmt.Errorf("%q is no part of this control plane", command))
	}
}

// store serves one etcd member below a folder until SIGTERM.
func store(arguments []string) {
	if len(arguments) != 3 {
		fail(fmt.Errorf("etcd takes FOLDER URL PEER-URL, got %q", arguments))
	}
	client, err := url.Parse(arguments[1])
	if err != nil {
		fail(err)
	}
	peer, err := url.Parse(arguments[2])
	if err != nil {
		fail(err)
	}
	config := embed.NewConfig()
	config.Dir, config.LogLevel = arguments[0], "warn"
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	if err != nil {
		fail(err)
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(ready):
		fail(fmt.Errorf("etcd was not ready within %s", ready))
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
