package main

import (
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
)

// newEtcdCommand serves a single-member etcd until SIGTERM. It does not fsync: the data outlives the process, not the
// machine, which is all that a test needs.
func newEtcdCommand() *cobra.Command {
	var dataDir, clientURL, peerURL string
	command := &cobra.Command{
		Use:          "etcd",
		Short:        "single-member etcd for tests, without fsync",
		SilenceUsage: true,
		RunE:         func(*cobra.Command, []string) error { return serveEtcd(dataDir, clientURL, peerURL) },
	}
	command.Flags().StringVar(&dataDir, "data-dir", "", "folder of the data (required)")
	command.Flags().StringVar(&clientURL, "client-url", "http://127.0.0.1:2379", "address for clients")
	command.Flags().StringVar(&peerURL, "peer-url", "http://127.0.0.1:2380", "address for peers")
	_ = command.MarkFlagRequired("data-dir")
	return command
}

func serveEtcd(dataDir, clientURL, peerURL string) error {
	client, err := url.Parse(clientURL)
	if err != nil {
		return err
	}
	peer, err := url.Parse(peerURL)
	if err != nil {
		return err
	}
	config := embed.NewConfig()
	config.Dir = dataDir
	config.LogLevel = "error"
	config.UnsafeNoFsync = true
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	select {
	case err := <-server.Err():
		return err
	case <-stop:
		return nil
	}
}
