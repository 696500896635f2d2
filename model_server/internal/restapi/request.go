package restapi

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"afo/model_server/internal/models"
)

// Fields of TensorFlow Serving's PredictRequest, and of the messages in it.
const (
	modelSpecField = protowire.Number(1) // PredictRequest
	inputsField    = protowire.Number(2)

	nameField      = protowire.Number(1) // ModelSpec
	versionField   = protowire.Number(2)
	signatureField = protowire.Number(3)

	keyField   = protowire.Number(1) // an entry of a map
	valueField = protowire.Number(2)

	dtypeField     = protowire.Number(1) // TensorProto
	shapeField     = protowire.Number(2)
	contentField   = protowire.Number(4)
	stringValField = protowire.Number(8)

	dimField  = protowire.Number(2) // TensorShapeProto
	sizeField = protowire.Number(1) // of a dimension

	defaultSignature = "serving_default"
)

// body is what a request of `:predict` says besides its values, which lie at an offset of its text.
type body struct {
	text      []byte
	signature string
	// Its values are `instances`, a list with a value for each row; else `inputs`, a list for each input.
	row    bool
	values int
}

// parseBody reads all of a text, so that whatever follows may rely on its being JSON.
func parseBody(text []byte) (body, error) {
	parsed := body{text: text, values: -1}
	s := scanner{text: text}
	if s.peek() != '{' {
		return body{}, wrong(0, "is not a JSON object; it is {\"instances\": […]} or {\"inputs\": …}")
	}
	seen := map[string]bool{}
	err := s.object(func(key []byte) error {
		if seen[string(key)] {
			return wrong(s.at, "is there twice")
		}
		seen[string(key)] = true
		return parsed.readKey(&s, string(key))
	})
	if err != nil {
		return body{}, err
	}
	if s.peek() != 0 || s.at != len(text) {
		return body{}, wrong(0, "is followed by something else, at byte %d", s.at)
	}
	if parsed.values < 0 {
		return body{}, wrong(0, "has neither `instances` nor `inputs`")
	}
	return parsed, nil
}

func (b *body) readKey(s *scanner, key string) error {
	switch key {
	case "signature_name":
		if s.peek() != '"' {
			return wrong(s.at, "is not a string")
		}
		name, err := s.str()
		b.signature = string(name)
		return err
	case "instances", "inputs":
		if b.values >= 0 {
			return wrong(0, "has `instances` as well as `inputs`; it is one of the two")
		}
		b.row, b.values = key == "instances", s.at
		return s.skip(1)
	}
	return wrong(s.at, "is not known; a body has `signature_name`, and `instances` or `inputs`")
}

// signatureOf is that of the model which the request names.
func (b *body) signatureOf(signatures map[string]models.Signature) (models.Signature, error) {
	name := b.signature
	if name == "" {
		name = defaultSignature
	}
	signature, ok := signatures[name]
	if !ok {
		return signature, wrong(0, "wants the signature %s; the model has %s", quoted(name), listed(signatures))
	}
	if len(signature.Inputs) == 0 {
		return signature, wrong(0, "wants the signature %s, which has no inputs", quoted(name))
	}
	return signature, nil
}

// tensors are the inputs of a request.
type tensors struct {
	all   []*tensorReader // in the order of their names
	named map[string]*tensorReader
}

// newTensors has an empty tensor for each input, of `dims` so far.
func newTensors(signature models.Signature, dims ...int64) (tensors, error) {
	made := tensors{named: map[string]*tensorReader{}}
	for _, name := range sortedKeys(signature.Inputs) {
		of, ok := dtypes[signature.Inputs[name].DType]
		if !ok {
			return tensors{}, wrong(0, "has no way to say the input %s, which is %s; inputs are %s",
				quoted(name), signature.Inputs[name].DType, listed(dtypes))
		}
		one := &tensorReader{name: name, of: of, dims: slices.Clone(dims)}
		made.all, made.named[name] = append(made.all, one), one
	}
	return made, nil
}

func (t tensors) names() string { return listed(t.named) }

// read makes the tensors of a body.
func (b *body) read(signature models.Signature) (tensors, error) {
	inputs, err := b.readValues(signature)
	if err != nil {
		return inputs, err
	}
	for _, one := range inputs.all {
		if err := one.checkRank(signature.Inputs[one.name].Shape); err != nil {
			return inputs, err
		}
	}
	return inputs, nil
}

func (b *body) readValues(signature models.Signature) (tensors, error) {
	s := &scanner{text: b.text, at: b.values}
	if b.row {
		return readInstances(s, signature)
	}
	inputs, err := newTensors(signature)
	if err != nil {
		return inputs, err
	}
	if s.peek() == '{' && !isBase64(*s) {
		return inputs, inputs.readNamed(s, 0, 0)
	}
	if len(inputs.all) > 1 {
		return inputs, wrong(s.at, "is one value, where the signature has the inputs %s: it is an object of them", inputs.names())
	}
	return inputs, inputs.all[0].read(s, 0)
}

// readInstances reads a list that has a row of each input in each of its elements.
func readInstances(s *scanner, signature models.Signature) (tensors, error) {
	if s.peek() != '[' {
		return tensors{}, wrong(s.at, "is not a list")
	}
	inputs, err := newTensors(signature, -1)
	if err != nil {
		return inputs, err
	}
	start, count, named := s.at, 0, false
	err = s.list(func(index int) error {
		count++
		object := s.peek() == '{' && !isBase64(*s)
		if index == 0 {
			named = object
		}
		switch {
		case object != named:
			return wrong(s.at, "is of another kind than the instance before it: they are all values, or all objects of named inputs")
		case object:
			return inputs.readNamed(s, index, 1)
		case len(inputs.all) > 1:
			return wrong(s.at, "is one value, where the signature has the inputs %s: it is an object of them", inputs.names())
		}
		return inputs.all[0].read(s, 1)
	})
	if err == nil && count == 0 {
		err = wrong(start, "is empty")
	}
	for _, one := range inputs.all {
		one.dims[0] = int64(count)
	}
	return inputs, err
}

// readNamed reads an object that has a value for each input, the index-th of all.
func (t tensors) readNamed(s *scanner, index, depth int) error {
	start := s.at
	err := s.object(func(name []byte) error {
		one := t.named[string(name)]
		if one == nil {
			return wrong(s.at, "is no input of the signature; its inputs are %s", t.names())
		}
		if one.instances > index {
			return wrong(s.at, "is there twice")
		}
		one.instances++
		return one.read(s, depth)
	})
	if err != nil {
		return err
	}
	for _, one := range t.all {
		if one.instances == index {
			return wrong(start, "has no value for the input %s; the inputs are %s", quoted(one.name), t.names())
		}
	}
	return nil
}

// appendRequest writes a PredictRequest.
func appendRequest(to []byte, spec models.Spec, signature string, inputs tensors) []byte {
	var model []byte
	model = appendBytes(model, nameField, []byte(spec.Name))
	if spec.Version != 0 {
		model = appendBytes(model, versionField, appendVarint(nil, 1, uint64(spec.Version)))
	}
	if signature != "" {
		model = appendBytes(model, signatureField, []byte(signature))
	}
	to = appendBytes(to, modelSpecField, model)
	for _, one := range inputs.all {
		to = one.appendEntry(to)
	}
	return to
}

// appendEntry writes an entry of `inputs`, whose values, which may be large, are copied once.
func (t *tensorReader) appendEntry(to []byte) []byte {
	var shape []byte
	for _, size := range t.dims {
		shape = appendBytes(shape, dimField, appendVarint(nil, sizeField, uint64(size)))
	}
	head := appendVarint(nil, dtypeField, uint64(t.of))
	head = appendBytes(head, shapeField, shape)
	if t.of != stringType {
		head = protowire.AppendTag(head, contentField, protowire.BytesType)
		head = protowire.AppendVarint(head, uint64(len(t.content)))
	}
	size := len(head) + len(t.content)
	key := appendBytes(nil, keyField, []byte(t.name))
	entry := len(key) + protowire.SizeTag(valueField) + protowire.SizeBytes(size)
	to = slices.Grow(to, entry+16)
	to = protowire.AppendTag(to, inputsField, protowire.BytesType)
	to = protowire.AppendVarint(to, uint64(entry))
	to = append(to, key...)
	to = protowire.AppendTag(to, valueField, protowire.BytesType)
	to = protowire.AppendVarint(to, uint64(size))
	to = append(to, head...)
	return append(to, t.content...)
}

func appendBytes(to []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), value)
}

func appendVarint(to []byte, field protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), value)
}

func sortedKeys[V any](of map[string]V) []string {
	keys := make([]string, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func listed[V any](of map[string]V) string { return joined(sortedKeys(of)) }

// joined lists names in an error: a signature may have thousands.
func joined(names []string) string {
	const most = 20
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
