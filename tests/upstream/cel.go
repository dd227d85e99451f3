package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// environmentOf says in which of DRA's environments an expression is compiled: the one for stored
// expressions, which knows everything, or the one for new expressions with the gates on or off.
type environmentOf struct {
	NewExpressions           bool  `json:"newExpressions"`
	EnableConsumableCapacity bool  `json:"enableConsumableCapacity"`
	EnableListTypeAttributes *bool `json:"enableListTypeAttributes"` // on unless false
}

// celQuestion asks whether a device matches an expression.
type celQuestion struct {
	environmentOf
	Name       string             `json:"name"`
	Expression string             `json:"expression"`
	Driver     string             `json:"driver"`
	Device     resourceapi.Device `json:"device"`
}

// celAnswer is a match or an error with the stage it came up in. The cost is there once something ran.
type celAnswer struct {
	Name  string   `json:"name"`
	Match *bool    `json:"match,omitempty"`
	Error string   `json:"error,omitempty"`
	Stage string   `json:"stage,omitempty"`
	Cost  *celCost `json:"cost,omitempty"`
}

type celCost struct {
	Actual uint64 `json:"actual"`
}

// celTiming asks how long an expression takes: one compilation, the first round over all devices,
// and so many more rounds.
type celTiming struct {
	environmentOf
	Name       string               `json:"name"`
	Expression string               `json:"expression"`
	Driver     string               `json:"driver"`
	Devices    []resourceapi.Device `json:"devices"`
	Rounds     int                  `json:"rounds"`
}

// celTimes are nanoseconds; `warm` is the sum over all later rounds.
type celTimes struct {
	Name    string `json:"name"`
	Compile int64  `json:"compile"`
	First   int64  `json:"first"`
	Warm    int64  `json:"warm"`
	Matches int    `json:"matches"`
}

// newCELOracleCommand answers questions about DRA's CEL, one JSON object a line, by upstream's own code.
func newCELOracleCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cel-oracle",
		Short: "Evaluate DRA's CEL expressions: JSON lines on stdin, answers on stdout in the same order",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return answerLines(command, func(question celQuestion) celAnswer { return question.answer(command.Context()) })
		},
	}
}

// newCELBenchCommand measures upstream's CEL on this machine, for comparison with ours in the same run.
func newCELBenchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cel-bench",
		Short: "Time DRA's CEL expressions: JSON lines on stdin, nanoseconds on stdout in the same order",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return answerLines(command, func(timing celTiming) celTimes { return timing.run(command.Context()) })
		},
	}
}

// answerLines answers a question a line.
func answerLines[Q, A any](command *cobra.Command, answer func(Q) A) error {
	return answerRawLines(command, func(line []byte) (any, error) {
		var question Q
		if err := json.Unmarshal(line, &question); err != nil {
			return nil, err
		}
		return answer(question), nil
	})
}

// answerRawLines flushes whenever no further line is waiting, so that one can talk to it line by line, too.
func answerRawLines(command *cobra.Command, answer func(line []byte) (any, error)) error {
	in := bufio.NewReaderSize(command.InOrStdin(), 1<<20)
	out := bufio.NewWriterSize(command.OutOrStdout(), 1<<20)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			answered, err := answer(line)
			if err != nil {
				return errors.Join(fmt.Errorf("line %d: %w", number, err), out.Flush())
			}
			if err := encoder.Encode(answered); err != nil {
				return err
			}
		}
		if err != nil {
			return out.Flush()
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}

func (q celQuestion) answer(ctx context.Context) (answer celAnswer) {
	answer.Name = q.Name
	answer.Stage = "compile"
	defer func() {
		// An expression that upstream cannot bear is an answer, too.
		if cause := recover(); cause != nil {
			answer.Error = fmt.Sprintf("panic: %v", cause)
		}
	}()
	compiled := q.compile(q.Expression)
	if compiled.Error != nil {
		answer.Error = compiled.Error.Detail
		return answer
	}
	answer.Stage = "runtime"
	match, details, err := compiled.DeviceMatches(ctx, deviceOf(q.Driver, &q.Device))
	if cost := details.ActualCost(); cost != nil {
		answer.Cost = &celCost{Actual: *cost}
	}
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	answer.Match = &match
	answer.Stage = ""
	return answer
}

func (t celTiming) run(ctx context.Context) celTimes {
	times := celTimes{Name: t.Name}
	t.compile("true") // not measured: it makes the environment
	began := time.Now()
	compiled := t.compile(t.Expression)
	times.Compile = time.Since(began).Nanoseconds()
	if compiled.Error != nil {
		return times
	}
	devices := make([]dracel.Device, len(t.Devices))
	for i := range t.Devices {
		devices[i] = deviceOf(t.Driver, &t.Devices[i])
	}
	began = time.Now()
	for _, device := range devices {
		if match, _, err := compiled.DeviceMatches(ctx, device); err == nil && match {
			times.Matches++
		}
	}
	times.First = time.Since(began).Nanoseconds()
	began = time.Now()
	for range t.Rounds {
		for _, device := range devices {
			_, _, _ = compiled.DeviceMatches(ctx, device)
		}
	}
	times.Warm = time.Since(began).Nanoseconds()
	return times
}

// celCompiler is what dracel.GetCompiler gives; the type itself is not exported. GetCompiler keeps
// only the last one, and making one takes milliseconds, so they are kept here.
type celCompiler interface {
	CompileCELExpression(expression string, options dracel.Options) dracel.CompilationResult
}

var celCompilers = map[dracel.Features]celCompiler{}

// compile is what kube-scheduler does: without an estimate of the cost.
func (e environmentOf) compile(expression string) dracel.CompilationResult {
	features := dracel.Features{
		EnableConsumableCapacity: e.EnableConsumableCapacity,
		EnableListTypeAttributes: e.EnableListTypeAttributes == nil || *e.EnableListTypeAttributes,
	}
	compiler, ok := celCompilers[features]
	if !ok {
		compiler = dracel.GetCompiler(features)
		celCompilers[features] = compiler
	}
	envType := environment.StoredExpressions
	if e.NewExpressions {
		envType = environment.NewExpressions
	}
	return compiler.CompileCELExpression(expression, dracel.Options{EnvType: &envType, DisableCostEstimation: true})
}

func deviceOf(driver string, device *resourceapi.Device) dracel.Device {
	return dracel.Device{
		Driver:                   driver,
		AllowMultipleAllocations: device.AllowMultipleAllocations,
		Attributes:               device.Attributes,
		Capacity:                 device.Capacity,
	}
}
