// Package strict reads JSON that people write: what is misspelt or doubtful in it is an error, and never passed over.
package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Unmarshal reads one JSON object, and nothing after it. Besides unknown keys it refuses those that encoding/json would
// take though they are not those that are known: in other letters that fold to the same, or twice in an object, where the
// last one would win. All keys are of small letters of ASCII, digits and _, among which none folds to another one, but for
// those in the objects that are named free, which are anybody's.
func Unmarshal(text []byte, into any, free ...string) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("it is no JSON object of known keys: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object; remove it")
	}
	decoder = json.NewDecoder(bytes.NewReader(text))
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	if token == nil {
		return errors.New("it is null, and no JSON object")
	}
	return checkValue(decoder, token, "", free)
}

// checkValue goes through the value that begins with a token, found under a key.
func checkValue(decoder *json.Decoder, token json.Token, under string, free []string) error {
	begin, nested := token.(json.Delim)
	if !nested {
		return nil
	}
	seen := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		key := under
		if begin == '{' {
			key = token.(string)
			if err := checkKey(key, slices.Contains(free, under), seen); err != nil {
				return err
			}
			if token, err = decoder.Token(); err != nil {
				return err
			}
		}
		if err := checkValue(decoder, token, key, free); err != nil {
			return err
		}
	}
	_, err := decoder.Token()
	return err
}

func checkKey(key string, free bool, seen map[string]bool) error {
	if seen[key] {
		return fmt.Errorf("the key %q is there twice; remove one", key)
	}
	seen[key] = true
	if !free && strings.ContainsFunc(key, foreign) {
		return fmt.Errorf("unknown field %+q: keys are in small letters (a to z), digits and _", key)
	}
	return nil
}

// foreign is true of what no key that is known has.
func foreign(each rune) bool {
	return each != '_' && (each < 'a' || each > 'z') && (each < '0' || each > '9')
}
