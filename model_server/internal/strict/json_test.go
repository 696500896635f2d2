package strict

import (
	"strings"
	"testing"
)

type read struct {
	Version int            `json:"version"`
	Key     []nested       `json:"key"`
	Labels  map[string]int `json:"labels"`
}

type nested struct {
	Size int `json:"size"`
}

func TestKeysThatFoldToAKnownOneAreUnknown(t *testing.T) {
	for text, says := range map[string]string{
		`{"ver\u017fion": 1}`:               `unknown field "ver\u017fion": keys are in small letters (a to z)`,
		`{"version": 1, "ver\u017fion": 2}`: `unknown field "ver\u017fion"`,
		`{"verſion": 1}`:                    `unknown field "ver\u017fion"`,
		`{"\u212aey": []}`:                  `unknown field "\u212aey"`,
		`{"key": [{"\u017fize": 1}]}`:       `unknown field "\u017fize"`,
		`{"Version": 1}`:                    `unknown field "Version"`,
		`{"version": 1, "version": 2}`:      `"version" is there twice`,
		`{"labels": {"\u017f": 1, "ſ": 2}}`: `is there twice`,
	} {
		if err := Unmarshal([]byte(text), &read{}, "labels"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; expected: %s", text, err, says)
		}
	}
}

func TestFreeKeysAreAnybodys(t *testing.T) {
	var into read
	err := Unmarshal([]byte(`{"version": 1, "key": [{"size": 2}], "labels": {"s": 1, "S": 2, "\u017f": 3, "\u212a-1.x": 4}}`), &into, "labels")
	if err != nil || into.Version != 1 || into.Key[0].Size != 2 || len(into.Labels) != 4 {
		t.Error(into, err)
	}
}
