package grpcapi

import (
	"context"

	"afo/model_server/internal/models"
	pb "afo/model_server/internal/tfserving"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// modelService is TensorFlow Serving's ModelService.
type modelService struct {
	pb.UnimplementedModelServiceServer
	predictor models.Predictor
}

// GetModelStatus tells the states of one version or of all.
func (m *modelService) GetModelStatus(ctx context.Context, request *pb.GetModelStatusRequest) (*pb.GetModelStatusResponse, error) {
	spec, entry := specFrom(request.GetModelSpec()), entryOf(ctx)
	entry.Model = spec.Name
	if spec.Label != "" {
		// A label is a name of a version that answers.
		_, version, err := m.predictor.Signatures(spec)
		if err != nil {
			return nil, err
		}
		spec.Version = version
	}
	statuses, err := m.predictor.Status(spec.Name, spec.Version)
	if err != nil {
		return nil, err
	}
	entry.Version = spec.Version // which there is, so that it may be a label of a metric
	response := &pb.GetModelStatusResponse{}
	for _, each := range statuses {
		response.ModelVersionStatus = append(response.ModelVersionStatus, &pb.ModelVersionStatus{
			Version: each.Version, State: pb.ModelVersionStatus_State(each.State),
			Status: &pb.StatusProto{ErrorCode: int32(each.Code), ErrorMessage: each.Message},
		})
	}
	return response, nil
}

func (m *modelService) HandleReloadConfigRequest(context.Context, *pb.ReloadConfigRequest) (*pb.ReloadConfigResponse, error) {
	return nil, status.Error(codes.Unimplemented, "HandleReloadConfigRequest is not served: new versions are found"+
		" by themselves; start the server anew for other models")
}
