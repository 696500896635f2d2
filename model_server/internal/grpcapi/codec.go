package grpcapi

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// rawRequest is a message as it came: the model reads it itself, so that its tensors are read once and not copied.
type rawRequest struct{ buffer mem.Buffer }

func (r *rawRequest) bytes() []byte { return r.buffer.ReadOnlyData() }

// rawResponse is a message in pieces, which are sent one after the other.
type rawResponse [][]byte

func (r rawResponse) size() int {
	size := 0
	for _, each := range r {
		size += len(each)
	}
	return size
}

// codec is that of protobuf, but for messages that stay as they are.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

func (c codec) Marshal(message any) (mem.BufferSlice, error) {
	raw, ok := message.(rawResponse)
	if !ok {
		return c.CodecV2.Marshal(message)
	}
	slice := make(mem.BufferSlice, 0, len(raw))
	for _, each := range raw {
		slice = append(slice, mem.SliceBuffer(each))
	}
	return slice, nil
}

// Unmarshal keeps a raw request's bytes until its buffer is freed.
func (c codec) Unmarshal(data mem.BufferSlice, message any) error {
	if raw, ok := message.(*rawRequest); ok {
		raw.buffer = data.MaterializeToBuffer(mem.DefaultBufferPool())
		return nil
	}
	return c.CodecV2.Unmarshal(data, message)
}
