package config

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// checkKeys refuses keys that encoding/json would take though they are not those that are known: in capitals, or twice
// in an object, where the last one would win. All keys are in small letters, but for labels, which are anybody's.
func checkKeys(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	return checkValue(decoder, token, "")
}

// checkValue goes through the value that begins with a token, found under a key.
func checkValue(decoder *json.Decoder, token json.Token, under string) error {
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
			if err := checkKey(key, under, seen); err != nil {
				return err
			}
			if token, err = decoder.Token(); err != nil {
				return err
			}
		}
		if err := checkValue(decoder, token, key); err != nil {
			return err
		}
	}
	_, err := decoder.Token()
	return err
}

func checkKey(key, under string, seen map[string]bool) error {
	if seen[key] {
		return fmt.Errorf("the key %q is there twice; remove one", key)
	}
	seen[key] = true
	for _, each := range key {
		if each >= 'A' && each <= 'Z' && under != "version_labels" && under != "split" {
			return fmt.Errorf("unknown field %q: keys are in small letters", key)
		}
	}
	return nil
}
