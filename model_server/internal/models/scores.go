package models

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of TensorFlow's messages.
const (
	responseOutput protowire.Number = 1 // of PredictResponse, as a map's entry
	entryKeyField  protowire.Number = 1
	entryValue     protowire.Number = 2
	tensorType     protowire.Number = 1 // of TensorProto, as the following
	tensorShape    protowire.Number = 2
	tensorContent  protowire.Number = 4
	tensorFloats   protowire.Number = 5
	shapeDim       protowire.Number = 2
	dimSize        protowire.Number = 1
	floatType                       = 1
	floatBytes                      = 4
)

// mostScores are read of one answer, evenly over its rows: more would cost the request more than they tell.
const mostScores = 64

// floats is a tensor of them, as a message has it.
type floats struct {
	name    string
	content []byte
	columns int
}

// eachScore calls do with scores of a PredictResponse: the last column of its first output of floats, by name. An answer
// without one has no scores.
func eachScore(response []byte, do func(float32)) {
	var first *floats
	err := eachField(response, func(each field) error {
		if !each.is(responseOutput) {
			return nil
		}
		if found, err := floatsIn(each.value); err != nil || found == nil {
			return err
		} else if first == nil || found.name < first.name {
			first = found
		}
		return nil
	})
	if err != nil || first == nil {
		return
	}
	width := first.columns * floatBytes
	rows := len(first.content) / width
	step := max(1, (rows+mostScores-1)/mostScores)
	for row := 0; row < rows; row += step {
		last := first.content[(row+1)*width-floatBytes:]
		do(math.Float32frombits(binary.LittleEndian.Uint32(last)))
	}
}

// floatsIn is the tensor in an output, nil where it is of another type.
func floatsIn(entry []byte) (*floats, error) {
	found := &floats{columns: 1}
	kind := uint64(0)
	err := eachField(entry, func(each field) error {
		switch {
		case each.is(entryKeyField):
			found.name = string(each.value)
		case each.is(entryValue):
			return eachField(each.value, func(each field) error {
				switch {
				case each.number == tensorType && each.kind == protowire.VarintType:
					kind = each.varint
				case each.is(tensorShape):
					return found.readShape(each.value)
				case each.is(tensorContent), each.is(tensorFloats):
					found.content = each.value // both are floats, one after the other
				}
				return nil
			})
		}
		return nil
	})
	if kind != floatType {
		return nil, err
	}
	return found, err
}

// readShape takes the last of several dimensions for columns.
func (f *floats) readShape(shape []byte) error {
	count, last := 0, uint64(1)
	err := eachField(shape, func(each field) error {
		if !each.is(shapeDim) {
			return nil
		}
		count, last = count+1, 0
		return eachField(each.value, func(each field) error {
			if each.number == dimSize && each.kind == protowire.VarintType {
				last = each.varint
			}
			return nil
		})
	})
	if count > 1 && last >= 1 && last <= math.MaxInt32 {
		f.columns = int(last)
	}
	return err
}
