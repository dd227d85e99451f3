// Command show prints its environment, which is where a container sees its devices, and a line END.
//
// Then it does what its name says, so that it can stand in for the images of examples/: as `sleep SECONDS` it ends after
// so long, as `sh -c "exit CODE"` at once, by any other name when it gets a signal.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	environment := os.Environ()
	slices.Sort(environment)
	fmt.Printf("%s\nEND\n", strings.Join(environment, "\n"))

	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGINT, syscall.SIGTERM)
	switch filepath.Base(os.Args[0]) {
	case "sleep":
		seconds, err := strconv.ParseFloat(os.Args[len(os.Args)-1], 64)
		if err != nil {
			fail(err)
		}
		select {
		case <-asked:
		case <-time.After(time.Duration(seconds * float64(time.Second))):
		}
	case "sh":
		code, err := strconv.Atoi(strings.TrimPrefix(os.Args[len(os.Args)-1], "exit "))
		if err != nil {
			fail(err)
		}
		os.Exit(code)
	default:
		<-asked
	}
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", strings.Join(os.Args, " "), err)
	os.Exit(2)
}
