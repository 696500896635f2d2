package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"google.golang.org/grpc/codes"

	"afo/model_server/internal/config"
	"afo/model_server/internal/hdfs"
	"afo/model_server/internal/models"
	"afo/model_server/internal/rollout"
)

// copiers copy models from HDFS, by the models' names. One goroutine each: a cluster that hangs holds up its own models.
type copiers map[string]*hdfs.Copier

// newCopiers tells models of HDFS where they are copied to. Of the registry, which is made later, it is asked for once
// they copy.
func newCopiers(log *slog.Logger, settings *config.Config, registry func() *models.Registry) (copiers, error) {
	made := copiers{}
	for i := range settings.Models {
		model := &settings.Models[i]
		if !model.InHDFS() {
			continue
		}
		cluster, path, err := hdfs.Split(model.BasePath)
		if err != nil {
			return nil, fmt.Errorf("models[%d]: %w", i, err)
		}
		var keytab *hdfs.Keytab
		if of := settings.Kerberos; of != nil {
			keytab = &hdfs.Keytab{Principal: of.Principal, File: of.Keytab}
		}
		model.Copied = filepath.Join(settings.CacheDirectory, hdfs.CacheName(model.BasePath))
		made[model.Name], err = hdfs.New(hdfs.Options{
			URL: model.BasePath, Path: path, Directory: model.Copied, Policy: model.Versions, Files: hdfs.NewClient(cluster, keytab),
			Poll: settings.Poll(), Log: log.With("model", model.Name),
			Standing: func(version int64) hdfs.Standing { return standing(registry(), model.Name, version) },
			Held:     func() rollout.Held { return registry().Held(model.Name) },
		})
		if err != nil {
			return nil, err
		}
	}
	return made, nil
}

func standing(registry *models.Registry, model string, version int64) hdfs.Standing {
	statuses, _ := registry.Status(model, 0) // the model is there
	for _, each := range statuses {
		if each.Version != version {
			continue
		}
		switch each.State {
		case models.StateStart, models.StateLoading:
			return hdfs.Loading
		case models.StateAvailable, models.StateUnloading:
			return hdfs.Used
		case models.StateEnd:
			if each.Code != codes.OK {
				return hdfs.Failed
			}
		}
	}
	return hdfs.Unused
}

func (m copiers) problems(model string) []models.Problem {
	if copier := m[model]; copier != nil {
		return copier.Problems()
	}
	return nil
}

func (m copiers) remote(model string) []int64 {
	if copier := m[model]; copier != nil {
		return copier.There()
	}
	return nil
}

// check refuses a version that lies where a model is copied to and is no copy.
func (m copiers) check(model string, version int64) error {
	if copier := m[model]; copier != nil {
		return copier.Holds(version)
	}
	return nil
}

// start copies until the context ends.
func (m copiers) start(ctx context.Context) {
	for _, each := range m {
		go each.Run(ctx)
	}
}
