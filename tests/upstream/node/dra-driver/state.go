package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// state is what the file says, as JSON. Devices and counters are written as in a ResourceSlice of resource.k8s.io/v1:
// models and other attributes, capacity, taints, counters that partitions consume, shares.
type state struct {
	Pool    string   `json:"pool"` // the node's name if empty
	Slices  []slice  `json:"slices"`
	Prepare prepare  `json:"prepare"`
	Health  []health `json:"health"` // devices that are not listed are healthy
}

type slice struct {
	Devices        []resourceapi.Device     `json:"devices"`
	SharedCounters []resourceapi.CounterSet `json:"sharedCounters"`
}

type prepare struct {
	DelaySeconds float64 `json:"delaySeconds"`
	Error        string  `json:"error"` // preparing fails with this, if it is not empty
}

type health struct {
	Device  string                     `json:"device"`
	Health  kubeletplugin.HealthStatus `json:"health"`
	Message string                     `json:"message"`
}

func read(file string) (state, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return state{}, err
	}
	var read state
	if err := json.Unmarshal(text, &read); err != nil {
		return state{}, fmt.Errorf("%s: %w", file, err)
	}
	return read, nil
}

// modified is the zero time for a file that is not there.
func modified(file string) time.Time {
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

func (s state) pool(node string) string {
	if s.Pool != "" {
		return s.Pool
	}
	return node
}

func (s state) resources(node string) resourceslice.DriverResources {
	pool := resourceslice.Pool{}
	for _, each := range s.Slices {
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: each.Devices, SharedCounters: each.SharedCounters})
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{s.pool(node): pool}}
}

// report covers every device, so that a kubelet that has just connected knows all of them.
func (s state) report(node string) kubeletplugin.DeviceHealthReport {
	said := map[string]health{}
	for _, each := range s.Health {
		said[each.Device] = each
	}
	var report kubeletplugin.DeviceHealthReport
	for _, slice := range s.Slices {
		for _, device := range slice.Devices {
			each := kubeletplugin.DeviceHealth{
				PoolName:    s.pool(node),
				DeviceName:  device.Name,
				Health:      kubeletplugin.HealthStatusHealthy,
				LastUpdated: time.Now(),
			}
			if known, ok := said[device.Name]; ok {
				each.Health, each.Message = known.Health, known.Message
			}
			report.Devices = append(report.Devices, each)
		}
	}
	return report
}
