package hdfs

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	colinmarc "github.com/colinmarc/hdfs/v2"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func TestASilentNodeIsAnError(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	connection := impatient{here, time.Millisecond}
	if _, err := connection.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	if _, err := connection.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

func TestAClusterThatIsNotThereIsNamed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	client := &Client{options: func() (colinmarc.ClientOptions, error) {
		return colinmarc.ClientOptions{Addresses: []string{address}, User: "x"}, nil
	}}
	for range 2 {
		if _, err := client.List(context.Background(), "/models", 10); err == nil || !strings.Contains(err.Error(), "the NameNode at "+address) {
			t.Error(err)
		}
	}
}

func TestAnErasureCodedFileIsRefusedAndADirectoryOfSuchIsNot(t *testing.T) {
	file := &colinmarc.FileStatus{}
	if reason := refused(file); reason != "" {
		t.Error(reason)
	}
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 18, protowire.VarintType), 4)
	file.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(unknown, ecPolicy, protowire.BytesType), []byte("RS-6-3")))
	kind := file.ProtoReflect().Descriptor().Fields().ByName("fileType")
	for number, expected := range map[protoreflect.EnumNumber]bool{isDirectory: false, isLink - 1: true} {
		file.ProtoReflect().Set(kind, protoreflect.ValueOfEnum(number))
		if isErasureCoded(file) != expected {
			t.Error(number)
		}
	}
	file.ProtoReflect().Set(kind, protoreflect.ValueOfEnum(isLink))
	if reason := refused(file); !strings.Contains(reason, "is a link") {
		t.Error(reason)
	}
}
