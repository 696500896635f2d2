package restapi

import (
	"encoding/json"
	"fmt"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"afo/model_server/internal/models"
)

// The messages that follow are TensorFlow Serving's as protobuf writes them in JSON: 64 bits are a string.

type versionStatus struct {
	Version string     `json:"version"`
	State   string     `json:"state"`
	Status  statusJSON `json:"status"`
}

type statusJSON struct {
	ErrorCode    string `json:"error_code"`
	ErrorMessage string `json:"error_message"`
}

// status answers GetModelStatus. A label stands for the version that it has now.
func (h *handler) status(to *answer) error {
	spec := to.target.spec
	version := spec.Version
	if spec.Label != "" {
		var err error
		if _, version, err = h.predictor.Signatures(spec); err != nil {
			return err
		}
	}
	versions, err := h.predictor.Status(spec.Name, version)
	if err != nil {
		return err
	}
	to.version = version
	all := make([]versionStatus, 0, len(versions))
	for _, one := range versions {
		all = append(all, versionStatus{strconv.FormatInt(one.Version, 10), fmt.Sprint(one.State),
			statusJSON{codeOf(one.Code).name, one.Message}})
	}
	return to.write(map[string]any{"model_version_status": all})
}

type tensorJSON struct {
	DType string    `json:"dtype"`
	Shape shapeJSON `json:"tensor_shape"`
	// Of the tensor in the graph, which is not known here.
	Name string `json:"name"`
}

type shapeJSON struct {
	Dim         []dimJSON `json:"dim"`
	UnknownRank bool      `json:"unknown_rank"`
}

type dimJSON struct {
	Size string `json:"size"`
	Name string `json:"name"`
}

type signatureJSON struct {
	Inputs     map[string]tensorJSON `json:"inputs"`
	Outputs    map[string]tensorJSON `json:"outputs"`
	MethodName string                `json:"method_name"`
}

type modelSpecJSON struct {
	Name          string `json:"name"`
	SignatureName string `json:"signature_name"`
	Version       string `json:"version"`
}

// metadata answers GetModelMetadata with its one field, the signatures.
func (h *handler) metadata(to *answer) error {
	signatures, version, err := h.predictor.Signatures(to.target.spec)
	if err != nil {
		return err
	}
	to.version = version
	all := map[string]signatureJSON{}
	for name, one := range signatures {
		all[name] = signatureJSON{tensorsJSON(one.Inputs), tensorsJSON(one.Outputs), one.MethodName}
	}
	return to.write(map[string]any{
		"model_spec": modelSpecJSON{Name: to.target.spec.Name, Version: strconv.FormatInt(version, 10)},
		// The field is a SignatureDefMap, whose own field has the same name.
		"metadata": map[string]any{"signature_def": map[string]any{"signature_def": all}},
	})
}

func tensorsJSON(of map[string]models.TensorInfo) map[string]tensorJSON {
	all := map[string]tensorJSON{}
	for name, info := range of {
		shape := shapeJSON{Dim: []dimJSON{}, UnknownRank: info.Shape == nil}
		for _, size := range info.Shape {
			shape.Dim = append(shape.Dim, dimJSON{Size: strconv.FormatInt(size, 10)})
		}
		all[name] = tensorJSON{DType: info.DType, Shape: shape}
	}
	return all
}

// write makes a body of what JSON can say.
func (a *answer) write(of any) error {
	body, err := json.MarshalIndent(of, "", " ")
	if err != nil {
		return status.Errorf(codes.Internal, "the answer is not JSON: %v", err)
	}
	a.body = append(body, '\n')
	return nil
}
