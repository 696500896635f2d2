// Command afo_model_server serves exported models by TensorFlow Serving's gRPC and REST APIs.
//
// It computes with libafo_processor.so, which it opens when it starts. SIGTERM and SIGINT end it, after its
// shutdown_delay, once the requests under way are answered; a second one ends it at once. SIGHUP begins a new file of the access log.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"afo/model_server/internal/config"
	"afo/model_server/internal/processor"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(log, os.Args[1:]); err != nil {
		log.Error(err.Error())
		os.Exit(1)
	}
	// The memory of models goes with the process. C's destructors would run while TensorFlow's threads still do.
	os.Exit(0)
}

func run(log *slog.Logger, arguments []string) error {
	settings, err := configured(arguments)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	// From now on: a log may be rotated while the libraries are loaded.
	rotated := make(chan os.Signal, 1)
	signal.Notify(rotated, syscall.SIGHUP)
	library, err := processor.Open(settings.Processor.Library, settings.Processor.TensorFlow, optionsOf(settings.Processor))
	if err != nil {
		return err
	}
	server, err := newServer(log, settings, library)
	if err != nil {
		return err
	}
	go server.access.log.ReopenOn(rotated)
	failed := server.start()
	select {
	case err := <-failed:
		return err
	case got := <-signals:
		log.Info("stopping once the requests under way are answered", "signal", got.String(),
			"shutdown_delay", settings.DelaySeconds, "drain_timeout", settings.DrainSeconds)
	}
	go func() {
		log.Error("stopping at once", "signal", (<-signals).String())
		os.Exit(1)
	}()
	server.leave()
	select {
	case err := <-failed:
		return err
	case <-time.After(settings.Delay()):
	}
	ctx, cancel := context.WithTimeout(context.Background(), settings.Drain())
	defer cancel()
	server.stop(ctx)
	return nil
}

func optionsOf(of config.Processor) processor.Options {
	return processor.Options{
		IntraOpThreads: of.IntraOpThreads, InterOpThreads: of.InterOpThreads, EnableInlineExecute: of.EnableInlineExecute,
		SessionNum: of.SessionNum, SessionPolicy: of.SessionPolicy, CPUSets: of.CPUSets, AskersCompute: of.AskersCompute(),
	}
}

func configured(arguments []string) (*config.Config, error) {
	flags := flag.NewFlagSet("afo_model_server", flag.ContinueOnError)
	path := flags.String("config", "", "the configuration, a JSON `file`; it may be /dev/fd/N")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	if flags.NArg() != 0 {
		return nil, fmt.Errorf("the argument %q is not known; allowed: --config FILE", flags.Arg(0))
	}
	if *path == "" {
		return nil, errors.New("--config is missing: the file with the configuration")
	}
	return config.Read(*path)
}
