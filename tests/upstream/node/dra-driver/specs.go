package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	cdi "tags.cncf.io/container-device-interface/specs-go"
)

const (
	cdiVersion = "0.6.0"
	// What the driver needs to know about a prepared device after a restart stands in the claim's CDI spec.
	deviceAnnotation = "device.example.com/id"
)

var notInNames = regexp.MustCompile(`[^A-Z0-9]+`)

// specs are the CDI specs of one driver: a file a prepared claim.
type specs struct {
	directory, driver string
}

func (s specs) path(claim types.UID) string {
	return filepath.Join(s.directory, fmt.Sprintf("%s-%s.json", s.driver, claim))
}

// prepare writes the claim's spec; again if it is there already. It refuses a device that another claim has: as the last
// one who could notice that something allocated it twice.
func (s specs) prepare(claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	taken, err := s.taken(claim.UID)
	if err != nil {
		return nil, err
	}
	spec := cdi.Spec{Version: cdiVersion, Kind: s.driver + "/device"}
	var devices []kubeletplugin.Device
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != s.driver {
			continue
		}
		id := identity(result)
		if other, ok := taken[id]; ok && (result.AdminAccess == nil || !*result.AdminAccess) {
			return nil, fmt.Errorf("device %s is prepared for another claim (%s)", id, other)
		}
		name := fmt.Sprintf("%s-%d", claim.UID, len(devices))
		variable := "DEVICE_" + notInNames.ReplaceAllString(strings.ToUpper(id), "_") + "=" + id
		spec.Devices = append(spec.Devices, cdi.Device{
			Name:           name,
			Annotations:    map[string]string{deviceAnnotation: id},
			ContainerEdits: cdi.ContainerEdits{Env: []string{variable}},
		})
		devices = append(devices, kubeletplugin.Device{
			Requests:     []string{result.Request},
			PoolName:     result.Pool,
			DeviceName:   result.Device,
			ShareID:      result.ShareID,
			CDIDeviceIDs: []string{spec.Kind + "=" + name},
		})
	}
	return devices, s.write(claim.UID, spec)
}

func (s specs) unprepare(claim types.UID) error {
	if err := os.Remove(s.path(claim)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (s specs) write(claim types.UID, spec cdi.Spec) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	// The runtime reads every .json there: it must not see half a file.
	partial := s.path(claim) + ".partial"
	if err := os.WriteFile(partial, text, 0o644); err != nil {
		return err
	}
	return os.Rename(partial, s.path(claim))
}

// taken gives the devices of all other claims that are prepared, with the UID of each claim.
func (s specs) taken(except types.UID) (map[string]types.UID, error) {
	files, err := filepath.Glob(s.path("*"))
	if err != nil {
		return nil, err
	}
	taken := map[string]types.UID{}
	for _, file := range files {
		claim := types.UID(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), s.driver+"-"), ".json"))
		if claim == except {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var spec cdi.Spec
		if err := json.Unmarshal(text, &spec); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, device := range spec.Devices {
			taken[device.Annotations[deviceAnnotation]] = claim
		}
	}
	return taken, nil
}

func identity(result resourceapi.DeviceRequestAllocationResult) string {
	parts := []string{result.Driver, result.Pool, result.Device}
	if result.ShareID != nil {
		parts = append(parts, string(*result.ShareID))
	}
	return strings.Join(parts, "/")
}
