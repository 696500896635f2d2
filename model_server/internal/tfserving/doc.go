// Package tfserving has the messages and services of TensorFlow Serving that this server speaks, generated from two
// files of our own with its names and field numbers: protobuf and gRPC need no more to understand each other.
//
// The generated files are committed, so that a build needs Go alone. After a change of a .proto, with protoc (pip
// install grpcio-tools has one) and the plugins of go.mod's protobuf and of grpc (go install
// google.golang.org/protobuf/cmd/protoc-gen-go and google.golang.org/grpc/cmd/protoc-gen-go-grpc):
package tfserving

//go:generate python -m grpc_tools.protoc -I. --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative tensorflow.proto serving.proto
