package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// allocatorScenario is a cluster, a node and the claims to allocate there. Devices are named
// driver/pool/device, shares driver/pool/device/shareID.
type allocatorScenario struct {
	ID                       string                                                     `json:"id"`
	Features                 allocatorFeatures                                          `json:"features"`
	AllocatedDevices         []string                                                   `json:"allocatedDevices"`
	AllocatedSharedDeviceIDs []string                                                   `json:"allocatedSharedDeviceIDs"`
	AggregatedCapacity       map[string]map[resourceapi.QualifiedName]resource.Quantity `json:"aggregatedCapacity"`
	Classes                  []*resourceapi.DeviceClass                                 `json:"classes"`
	Slices                   []*resourceapi.ResourceSlice                               `json:"slices"`
	Node                     *corev1.Node                                               `json:"node"`
	Claims                   []*resourceapi.ResourceClaim                               `json:"claims"`
	Tags                     []string                                                   `json:"tags"`
	Note                     string                                                     `json:"note"`
}

type allocatorFeatures struct {
	AdminAccess             bool `json:"adminAccess"`
	CompatibilityGroups     bool `json:"compatibilityGroups"`
	ConsumableCapacity      bool `json:"consumableCapacity"`
	DerivedAttributes       bool `json:"derivedAttributes"`
	DeviceBindingAndStatus  bool `json:"deviceBindingAndStatus"`
	DeviceTaints            bool `json:"deviceTaints"`
	FractionalCapacityRange bool `json:"fractionalCapacityRange"`
	ListTypeAttributes      bool `json:"listTypeAttributes"`
	OptionalNodeOperations  bool `json:"optionalNodeOperations"`
	PartitionableDevices    bool `json:"partitionableDevices"`
	PrioritizedList         bool `json:"prioritizedList"`
}

// allocatorAnswer is what upstream says. Durations are nanoseconds: medians over the repeats, but NsFirst,
// in which nothing is compiled yet.
type allocatorAnswer struct {
	ID                     string                         `json:"id"`
	Results                []resourceapi.AllocationResult `json:"results"` // null: does not fit, or an error
	Error                  *string                        `json:"error"`
	ErrorOnNodeOnly        bool                           `json:"errorOnNodeOnly,omitempty"`
	Ns                     int64                          `json:"ns"`
	NsFirst                int64                          `json:"nsFirst"`
	Repeats                int                            `json:"repeats"`
	NsNew                  int64                          `json:"nsNew"`
	AllocateOneInvocations *int64                         `json:"allocateOneInvocations"`
	Variant                string                         `json:"variant"`
	Unstable               bool                           `json:"unstable,omitempty"`
}

// allocatorOptions say which of upstream's implementations answers, and how often it is asked the same.
type allocatorOptions struct {
	variant string
	repeats int
	budget  time.Duration
	timeout time.Duration
	strict  bool
	// keepCompiled makes NsFirst meaningless, and everything faster: a compiler takes milliseconds to make.
	keepCompiled bool
}

// newAllocatorOracleCommand answers scenarios, one JSON object a line, by upstream's own allocator.
func newAllocatorOracleCommand() *cobra.Command {
	var options allocatorOptions
	command := &cobra.Command{
		Use:   "allocator-oracle",
		Short: "Allocate devices for claims: scenarios as JSON lines on stdin, answers on stdout in the same order",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := options.chooseVariant(); err != nil {
				return err
			}
			return answerRawLines(command, func(line []byte) (any, error) {
				return options.answer(command.Context(), line), nil
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.variant, "variant", "experimental", "stable, incubating, experimental, or auto: upstream's choice")
	flags.IntVar(&options.repeats, "repeats", 5, "how often each scenario is run")
	flags.DurationVar(&options.budget, "budget", 2*time.Second, "no further repeats of a scenario after this time")
	flags.DurationVar(&options.timeout, "timeout", 20*time.Second, "for one run of a scenario")
	flags.BoolVar(&options.keepCompiled, "keep-compiled", false, "keep compiled selectors for later scenarios")
	flags.BoolVar(&options.strict, "strict", true, "refuse unknown fields")
	return command
}

// chooseVariant sets what the whole program uses from now on.
func (o allocatorOptions) chooseVariant() error {
	switch o.variant {
	case "auto":
		structured.EnableAllocators()
	case "stable", "incubating", "experimental":
		structured.EnableAllocators(o.variant)
	default:
		return fmt.Errorf("--variant %s: want stable, incubating, experimental or auto", o.variant)
	}
	return nil
}

func (o allocatorOptions) answer(ctx context.Context, line []byte) allocatorAnswer {
	scenario, err := o.parse(line)
	answer := allocatorAnswer{ID: scenario.ID}
	if err != nil {
		answer.Error = textOf(fmt.Errorf("bad scenario: %w", err))
		return answer
	}
	state, err := scenario.allocatedState()
	if err != nil {
		answer.Error = textOf(fmt.Errorf("bad scenario: %w", err))
		return answer
	}
	cache := o.cache(scenario.Features)
	var runs, news []time.Duration
	var first allocatorRun
	for began := time.Now(); len(runs) == 0 || len(runs) < o.repeats && time.Since(began) < o.budget; {
		run := scenario.run(ctx, state, cache, o.timeout)
		runs, news = append(runs, run.took), append(news, run.tookNew)
		if len(runs) == 1 {
			first = run
		} else if !first.same(run) {
			answer.Unstable = true
		}
	}
	answer.Results, answer.Error, answer.ErrorOnNodeOnly = first.results, textOf(first.err), first.nodeOnly()
	answer.AllocateOneInvocations, answer.Variant = first.steps, first.variant
	answer.NsFirst, answer.Ns, answer.NsNew = runs[0].Nanoseconds(), median(runs), median(news)
	answer.Repeats = len(runs)
	return answer
}

var celCaches = map[dracel.Features]*dracel.Cache{}

func (o allocatorOptions) cache(features allocatorFeatures) *dracel.Cache {
	if !o.keepCompiled {
		return dracel.NewCache(1000, features.cel())
	}
	cache, ok := celCaches[features.cel()]
	if !ok {
		cache = dracel.NewCache(1000, features.cel())
		celCaches[features.cel()] = cache
	}
	return cache
}

func (o allocatorOptions) parse(line []byte) (allocatorScenario, error) {
	var scenario allocatorScenario
	decoder := json.NewDecoder(bytes.NewReader(line))
	if o.strict {
		decoder.DisallowUnknownFields()
	}
	if err := decoder.Decode(&scenario); err != nil {
		return scenario, err
	}
	if scenario.Node == nil {
		return scenario, errors.New("no node")
	}
	return scenario, nil
}

func (f allocatorFeatures) cel() dracel.Features {
	return dracel.Features{EnableConsumableCapacity: f.ConsumableCapacity, EnableListTypeAttributes: f.ListTypeAttributes}
}

// allocatedState makes a new state from the scenario's strings.
func (s *allocatorScenario) allocatedState() (structured.AllocatedState, error) {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, name := range s.AllocatedDevices {
		id, err := deviceID(name)
		if err != nil {
			return state, err
		}
		state.AllocatedDevices.Insert(id)
	}
	for _, name := range s.AllocatedSharedDeviceIDs {
		cut := strings.LastIndexByte(name, '/')
		if cut < 0 {
			return state, fmt.Errorf("share %q: want driver/pool/device/shareID", name)
		}
		id, err := deviceID(name[:cut])
		if err != nil {
			return state, err
		}
		shareID := types.UID(name[cut+1:])
		share := structured.MakeSharedDeviceID(id, &shareID)
		if state.AllocatedSharedDeviceIDs.Has(share) {
			return state, fmt.Errorf("duplicate share ID %q", name)
		}
		state.AllocatedSharedDeviceIDs.Insert(share)
	}
	for name, consumed := range s.AggregatedCapacity {
		id, err := deviceID(name)
		if err != nil {
			return state, err
		}
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, consumed))
	}
	return state, nil
}

// deviceID splits driver/pool/device. A pool may contain slashes.
func deviceID(name string) (structured.DeviceID, error) {
	first, last := strings.IndexByte(name, '/'), strings.LastIndexByte(name, '/')
	if first < 0 || first == last {
		return structured.DeviceID{}, fmt.Errorf("device %q: want driver/pool/device", name)
	}
	return structured.MakeDeviceID(name[:first], name[first+1:last], name[last+1:]), nil
}

// classes looks DeviceClasses up by name, with the error an informer's lister gives.
type classes map[string]*resourceapi.DeviceClass

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class, ok := c[name]; ok {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclass"), name)
}

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	list := make([]*resourceapi.DeviceClass, 0, len(c))
	for _, class := range c {
		list = append(list, class)
	}
	return list, nil
}

func (s *allocatorScenario) classLister() classes {
	lister := make(classes, len(s.Classes))
	for _, class := range s.Classes {
		lister[class.Name] = class
	}
	return lister
}

// newAllocator builds upstream's allocator and says how long that took.
func (s *allocatorScenario) newAllocator(
	ctx context.Context, state structured.AllocatedState, lister classes, cache *dracel.Cache,
) (structured.Allocator, time.Duration, error) {
	began := time.Now()
	allocator, err := structured.NewAllocator(ctx, structured.Features(s.Features), state, lister, s.Slices, cache)
	took := time.Since(began)
	if err != nil {
		return nil, took, fmt.Errorf("NewAllocator: %w", err)
	}
	return allocator, took, nil
}

// allocatorRun is one run of a scenario. Share IDs are random, so they are numbered in the order of the results.
type allocatorRun struct {
	results       []resourceapi.AllocationResult
	err           error
	took, tookNew time.Duration
	steps         *int64
	variant       string
}

func (s *allocatorScenario) run(
	ctx context.Context, state structured.AllocatedState, cache *dracel.Cache, timeout time.Duration,
) (run allocatorRun) {
	defer func() {
		// Input that crashes upstream has an answer, too.
		if cause := recover(); cause != nil {
			run.results, run.err = nil, fmt.Errorf("panic: %v", cause)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	allocator, tookNew, err := s.newAllocator(ctx, state, s.classLister(), cache)
	run.tookNew, run.err = tookNew, err
	if err != nil {
		return run
	}
	run.variant = fmt.Sprint(call(allocator, "Channel"))
	began := time.Now()
	run.results, run.err = allocator.Allocate(ctx, s.Node, s.Claims)
	run.took = time.Since(began)
	if stats := call(allocator, "GetStats"); stats.IsValid() {
		steps := stats.FieldByName("NumAllocateOneInvocations").Int()
		run.steps = &steps
	}
	if errors.Is(run.err, context.DeadlineExceeded) {
		run.results, run.err = nil, errors.New("timeout")
	}
	numberShares(run.results)
	return run
}

// call reaches what the facade hides: the types of these methods are in upstream's internal packages.
func call(allocator structured.Allocator, method string) reflect.Value {
	found := reflect.ValueOf(allocator).MethodByName(method)
	if !found.IsValid() {
		return reflect.Value{}
	}
	return found.Call(nil)[0]
}

func numberShares(results []resourceapi.AllocationResult) {
	number := 0
	for i := range results {
		for j := range results[i].Devices.Results {
			if share := &results[i].Devices.Results[j].ShareID; *share != nil {
				id := types.UID(fmt.Sprintf("share-%d", number))
				*share = &id
				number++
			}
		}
	}
}

func (r allocatorRun) nodeOnly() bool {
	return r.err != nil && errors.Is(r.err, structured.ErrFailedAllocationOnNode)
}

func (r allocatorRun) same(other allocatorRun) bool {
	mine, err := json.Marshal(r.results)
	theirs, otherErr := json.Marshal(other.results)
	text, otherText := textOf(r.err), textOf(other.err)
	return err == nil && otherErr == nil && bytes.Equal(mine, theirs) && r.nodeOnly() == other.nodeOnly() &&
		(text == nil) == (otherText == nil) && (text == nil || *text == *otherText)
}

func textOf(err error) *string {
	if err == nil {
		return nil
	}
	text := err.Error()
	return &text
}

func median(durations []time.Duration) int64 {
	sorted := slices.Sorted(slices.Values(durations))
	return sorted[len(sorted)/2].Nanoseconds()
}

// allocatorTiming asks how long a Pod's pass over nodes takes: one allocator, one Allocate for each node.
// Without nodes, the scenario's own is the only one.
type allocatorTiming struct {
	Name     string            `json:"name"`
	Scenario allocatorScenario `json:"scenario"`
	Nodes    []*corev1.Node    `json:"nodes"`
	Rounds   int               `json:"rounds"`
	// TimeoutMs is for a single Allocate: what takes longer is not repeated.
	TimeoutMs int64 `json:"timeoutMs"`
	// BudgetMs is for all rounds: no more are begun after it.
	BudgetMs int64 `json:"budgetMs"`
}

// allocatorTimes are nanoseconds. New, Allocate and Pass are medians over the rounds; Allocate is over the nodes
// of a round as well. First is the very first Allocate, which compiles selectors. Steps are those of the first pass.
type allocatorTimes struct {
	Name     string `json:"name"`
	New      int64  `json:"new"`
	First    int64  `json:"first"`
	Allocate int64  `json:"allocate"`
	Pass     int64  `json:"pass"`
	Rounds   int    `json:"rounds"`
	Steps    int64  `json:"steps"`
	Fits     int    `json:"fits"`
	Error    string `json:"error,omitempty"`
}

// newAllocatorBenchCommand measures upstream's allocator on this machine, for comparison with ours in the same run.
func newAllocatorBenchCommand() *cobra.Command {
	variant := "experimental"
	command := &cobra.Command{
		Use:   "allocator-bench",
		Short: "Time allocations: JSON lines on stdin, nanoseconds on stdout in the same order",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := (allocatorOptions{variant: variant}).chooseVariant(); err != nil {
				return err
			}
			return answerLines(command, func(timing allocatorTiming) allocatorTimes { return timing.run(command.Context()) })
		},
	}
	command.Flags().StringVar(&variant, "variant", variant, "stable, incubating, experimental, or auto: upstream's choice")
	return command
}

func (t allocatorTiming) run(ctx context.Context) (times allocatorTimes) {
	times.Name = t.Name
	state, err := t.Scenario.allocatedState()
	if err != nil {
		times.Error = err.Error()
		return times
	}
	nodes := t.Nodes
	if len(nodes) == 0 {
		nodes = []*corev1.Node{t.Scenario.Node}
	}
	lister, cache := t.Scenario.classLister(), dracel.NewCache(1000, t.Scenario.Features.cel())
	var news, allocations, passes []time.Duration
	start := time.Now()
	for times.Rounds < max(t.Rounds, 1) && times.Error == "" {
		if t.BudgetMs > 0 && times.Rounds > 0 && time.Since(start) > time.Duration(t.BudgetMs)*time.Millisecond {
			break
		}
		allocator, tookNew, err := t.Scenario.newAllocator(ctx, state, lister, cache)
		if err != nil {
			times.Error = err.Error()
			return times
		}
		began := time.Now()
		for _, node := range nodes {
			took, fits, err := t.allocate(ctx, allocator, node)
			if times.Rounds == 0 && len(allocations) == 0 {
				times.First = took.Nanoseconds()
			}
			allocations = append(allocations, took)
			if err != nil {
				times.Error = err.Error()
				break
			}
			if times.Rounds == 0 && fits {
				times.Fits++
			}
		}
		news, passes = append(news, tookNew), append(passes, time.Since(began))
		if stats := call(allocator, "GetStats"); times.Rounds == 0 && stats.IsValid() {
			times.Steps = stats.FieldByName("NumAllocateOneInvocations").Int()
		}
		times.Rounds++
	}
	times.New, times.Allocate, times.Pass = median(news), median(allocations), median(passes)
	return times
}

func (t allocatorTiming) allocate(
	ctx context.Context, allocator structured.Allocator, node *corev1.Node,
) (time.Duration, bool, error) {
	if t.TimeoutMs > 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(t.TimeoutMs)*time.Millisecond)
		defer cancel()
		ctx = limited
	}
	began := time.Now()
	results, err := allocator.Allocate(ctx, node, t.Scenario.Claims)
	took := time.Since(began)
	if errors.Is(err, structured.ErrFailedAllocationOnNode) {
		err = nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("timeout")
	}
	return took, results != nil, err
}
