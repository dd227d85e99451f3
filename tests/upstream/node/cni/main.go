// Command cni is a network plugin without a network: every Pod gets an address, and nobody can reach it.
//
// The tests look at devices. A Pod needs an address all the same before the kubelet reports it as running.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
)

const version = "1.0.0"

type object = map[string]any

func main() {
	var answer object
	switch os.Getenv("CNI_COMMAND") {
	case "VERSION":
		answer = object{"cniVersion": version, "supportedVersions": []string{version}}
	case "ADD":
		answer = object{
			"cniVersion": version,
			"interfaces": []object{{"name": os.Getenv("CNI_IFNAME"), "sandbox": os.Getenv("CNI_NETNS")}},
			"ips":        []object{{"interface": 0, "address": address(os.Getenv("CNI_CONTAINERID")) + "/32"}},
		}
	default: // DEL and CHECK: nothing was made
		return
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The same for the same container; two containers of a few hundred hardly ever share one, and would not notice.
func address(container string) string {
	sum := sha256.Sum256([]byte(container))
	return fmt.Sprintf("10.%d.%d.%d", 128+sum[0]%128, sum[1], 1+sum[2]%254)
}
