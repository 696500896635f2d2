package models

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	mostWarmUpRecords = 1000
	mostWarmUpBytes   = 64 << 20
)

// warmUp sends the requests that lie beside a model, where TensorFlow Serving's exporters put them, so that the first
// one of a client finds everything in place. A request that fails is an error: those of clients would as well.
func warmUp(ctx context.Context, directory string, process func([]byte) ([]byte, error)) (int, error) {
	path := filepath.Join(directory, "assets.extra", "tf_serving_warmup_requests")
	file, err := os.Open(path)
	if absent(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	count := 0
	err = eachRecord(file, func(record []byte) error {
		if count++; count > mostWarmUpRecords {
			return fmt.Errorf("there are more than %d", mostWarmUpRecords)
		}
		request, err := requestOf(record)
		if err != nil {
			return err
		}
		if _, err := process(request); err != nil {
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		return count, fmt.Errorf("%s: record %d: %w", path, count, err)
	}
	return count, nil
}

// castagnoli is the polynomial of CRC-32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the checksum as TFRecord files keep it.
func masked(data []byte) uint32 {
	sum := crc32.Checksum(data, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}

var errDamaged = errors.New("the file is damaged: a checksum does not fit")

// eachRecord reads a TFRecord file: of each record its length and data, both with a checksum.
func eachRecord(file io.Reader, do func([]byte) error) error {
	reader := bufio.NewReader(file)
	for {
		var header [12]byte
		if _, err := io.ReadFull(reader, header[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("the file ends within a record: %w", err)
		}
		if masked(header[:8]) != binary.LittleEndian.Uint32(header[8:]) {
			return errDamaged
		}
		size := binary.LittleEndian.Uint64(header[:8])
		if size > mostWarmUpBytes {
			return fmt.Errorf("a record has %d bytes; allowed: %d", size, mostWarmUpBytes)
		}
		record := make([]byte, size+4)
		if _, err := io.ReadFull(reader, record); err != nil {
			return fmt.Errorf("the file ends within a record: %w", err)
		}
		data, sum := record[:size], record[size:]
		if masked(data) != binary.LittleEndian.Uint32(sum) {
			return errDamaged
		}
		if err := do(data); err != nil {
			return err
		}
	}
}

const (
	predictLog     protowire.Number = 6 // of PredictionLog
	predictRequest protowire.Number = 1 // of PredictLog
)

// requestOf is the PredictRequest of a serialized PredictionLog.
func requestOf(record []byte) ([]byte, error) {
	log, err := message(record, predictLog)
	if err != nil {
		return nil, err
	}
	request, err := message(log, predictRequest)
	if err != nil {
		return nil, err
	}
	if len(request) == 0 {
		return nil, errors.New("it is no PredictionLog with a predict_log and its request; Predict alone is served")
	}
	_, request, err = ReadRequest(request)
	return request, err
}

// message is a field that is a message. Serialized messages one after the other are their merge, which is what
// protobuf makes of a field that is there more than once.
func message(of []byte, number protowire.Number) ([]byte, error) {
	var found []byte
	err := eachField(of, func(each field) error {
		if each.is(number) {
			found = append(found, each.value...)
		}
		return nil
	})
	return found, err
}
