package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
)

// newEtcdCommand runs etcd with the few settings a control plane on loopback needs. It does not
// sync to disk: the data live as long as the test that made them.
func newEtcdCommand() *cobra.Command {
	var dataDir, listenClientURL string
	command := &cobra.Command{
		Use:   "etcd",
		Short: "A single etcd member on one client URL; not durable",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			client, err := url.Parse(listenClientURL)
			if err != nil {
				return fmt.Errorf("--listen-client-url: %w", err)
			}
			stop, cancel := signal.NotifyContext(command.Context(), os.Interrupt, syscall.SIGTERM)
			defer cancel()
			// There are no peers, but etcd insists on an address for them.
			peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}

			config := embed.NewConfig()
			config.Dir = dataDir
			config.UnsafeNoFsync = true
			config.ListenClientUrls = []url.URL{*client}
			config.AdvertiseClientUrls = []url.URL{*client}
			config.ListenPeerUrls = []url.URL{peer}
			config.AdvertisePeerUrls = []url.URL{peer}
			config.InitialCluster = config.InitialClusterFromName(config.Name)
			config.LogLevel = "warn"

			member, err := embed.StartEtcd(config)
			if err != nil {
				return err
			}
			defer member.Close()
			select {
			case <-member.Server.ReadyNotify():
				fmt.Fprintln(os.Stderr, "etcd is ready on", client.Host)
			case <-member.Server.StopNotify():
				return errors.New("etcd stopped before it was ready")
			case err := <-member.Err():
				return err
			}
			select {
			case err := <-member.Err():
				return err
			case <-stop.Done():
				return nil
			}
		},
	}
	command.Flags().StringVar(&dataDir, "data-dir", "", "directory of the member's data")
	command.Flags().StringVar(&listenClientURL, "listen-client-url", "", "URL to serve clients on, such as http://127.0.0.1:2379")
	for _, required := range []string{"data-dir", "listen-client-url"} {
		if err := command.MarkFlagRequired(required); err != nil {
			panic(err)
		}
	}
	return command
}
