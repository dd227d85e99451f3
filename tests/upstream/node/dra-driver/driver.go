package main

import (
	"context"
	"errors"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
)

// A report is sent again after so long: the kubelet forgets what it has not heard for 30 s.
const reportInterval = 10 * time.Second

type driver struct {
	name, node, file string
	specs            specs
}

func (d *driver) PrepareResourceClaims(
	ctx context.Context, claims []*resourceapi.ResourceClaim,
) (map[types.UID]kubeletplugin.PrepareResult, error) {
	now, err := read(d.file)
	if err != nil {
		return nil, err
	}
	for _, claim := range claims {
		klog.InfoS("Preparing", "claim", klog.KObj(claim)) // a test waits for these words
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Duration(now.Prepare.DelaySeconds * float64(time.Second))):
	}
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		if now.Prepare.Error != "" {
			results[claim.UID] = kubeletplugin.PrepareResult{Err: errors.New(now.Prepare.Error)}
			continue
		}
		devices, err := d.specs.prepare(claim)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

func (d *driver) UnprepareResourceClaims(
	_ context.Context, claims []kubeletplugin.NamespacedObject,
) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		results[claim.UID] = d.specs.unprepare(claim.UID)
	}
	return results, nil
}

// HandleError only logs, also fields that an older API server drops: what it stores then is what the test is about.
func (d *driver) HandleError(ctx context.Context, err error, message string) {
	runtime.HandleErrorWithContext(ctx, err, message)
}

func (d *driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	var sent, seen time.Time
	for {
		changed := modified(d.file)
		if !changed.Equal(seen) || time.Since(sent) > reportInterval {
			now, err := read(d.file)
			if err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case reports <- now.report(d.node):
				sent, seen = time.Now(), changed
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pollInterval):
		}
	}
}
