package models

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

func framed(data []byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	out = binary.LittleEndian.AppendUint32(out, masked(out))
	return binary.LittleEndian.AppendUint32(append(out, data...), masked(data))
}

func encoded(number protowire.Number, of []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), of)
}

// logged is a PredictionLog of a request with an output_filter; its log_metadata comes first.
func logged(filter string) []byte {
	request := encoded(3, []byte(filter))
	return append(encoded(1, []byte("\x12\x02\x08\x01")), encoded(predictLog, encoded(predictRequest, request))...)
}

func warmed(t *testing.T, file []byte) ([]string, error) {
	t.Helper()
	directory := t.TempDir()
	path := filepath.Join(directory, "assets.extra")
	if err := errors.Join(os.Mkdir(path, 0o700),
		os.WriteFile(filepath.Join(path, "tf_serving_warmup_requests"), file, 0o600)); err != nil {
		t.Fatal(err)
	}
	var requests []string
	_, err := warmUp(context.Background(), directory, func(request []byte) ([]byte, error) {
		requests = append(requests, string(request[2:]))
		if string(request[2:]) == "bad" {
			return nil, errors.New("it is bad")
		}
		return nil, nil
	})
	return requests, err
}

func TestARecordIsFramedAsTensorFlowDoes(t *testing.T) {
	// The checksums that TensorFlow writes for a record "hello".
	expected := []byte("\x05\x00\x00\x00\x00\x00\x00\x00\xea\xb2\x04\x3ehello\xbb\x1f\x1c\x19")
	if got := framed([]byte("hello")); !bytes.Equal(got, expected) {
		t.Errorf("%x", got)
	}
}

func TestRequestsBesideAModelAreSentInTheirOrder(t *testing.T) {
	requests, err := warmed(t, append(framed(logged("one")), framed(logged("two"))...))
	if err != nil || strings.Join(requests, " ") != "one two" {
		t.Error(requests, err)
	}
	if count, err := warmUp(context.Background(), t.TempDir(), nil); count != 0 || err != nil {
		t.Error(count, err)
	}
}

func TestWarmUpFilesThatAreWrongAreRefused(t *testing.T) {
	good := framed(logged("one"))
	huge := binary.LittleEndian.AppendUint64(nil, 1<<40)
	huge = binary.LittleEndian.AppendUint32(huge, masked(huge))
	flipped := bytes.Clone(good)
	flipped[13] ^= 1
	for _, each := range []struct {
		file []byte
		says string
	}{
		{good[:5], "ends within a record"},
		{good[:len(good)-1], "ends within a record"},
		{flipped, "a checksum does not fit"},
		{append([]byte{1}, good...), "a checksum does not fit"},
		{huge, "a record has 1099511627776 bytes"},
		{framed(logged("bad")), "record 1: it is bad"},
		{framed([]byte("\xff")), "record 1: "},
		{framed(encoded(2, []byte("x"))), "Predict alone is served"},
		{bytes.Repeat(good, mostWarmUpRecords+1), "more than 1000"},
	} {
		if _, err := warmed(t, each.file); err == nil || !strings.Contains(err.Error(), each.says) {
			t.Errorf("%v; expected: %s", err, each.says)
		}
	}
}

func TestAWarmUpThatFailsIsALoadThatFails(t *testing.T) {
	f := newFakes(t, latest)
	f.write(1, "one")
	f.look()
	f.write(2, "two")
	extra := filepath.Join(f.base, "2", "assets.extra")
	f.must(os.Mkdir(extra, 0o700))
	f.must(os.WriteFile(filepath.Join(extra, "tf_serving_warmup_requests"), framed(logged("bad")), 0o600))
	f.look()
	f.answers("one", 1)
	f.state(2, StateEnd, "a bad request")
	if f.closes.Load() != 1 {
		t.Error("what was loaded is closed")
	}
}
