package models

import (
	"encoding/json"
	"testing"
)

func TestAStepThatIsWrongKeepsNoVersionFromBeingServed(t *testing.T) {
	for step, expected := range map[string]int64{
		"7": 7, "0": 0, "9223372036854775807": 1<<63 - 1,
		`"7"`: 0, "7.0": 0, "1180591620717411303424": 0, "1.1805916207174113e+21": 0, "-5": 0, "null": 0, "[7]": 0, "": 0,
	} {
		f := newFakes(t, latest)
		f.step = step
		f.write(3, "three")
		f.look()
		f.answers("three", 3)
		_, err := stepOf(json.RawMessage(step))
		said := f.said("the step of a version is not known; it is 0 here")
		if got := f.model().find(3).Step; got != expected || (said == 1) != (err != nil) || said > 1 {
			t.Errorf("%s: step %d, said %d times, %v", step, got, said, err)
		}
	}
}

func TestAModelThatIsTheBaseHasVersion1WhereItsStepIsWrong(t *testing.T) {
	for text, expected := range map[string]int64{
		`{"step": 12}`: 12, `{"step": "12"}`: 1, `{"step": -5}`: 1, `{"step": 12.0}`: 1, `{"step": 1e400}`: 1, "{": 1, "[]": 1, "{}": 1,
	} {
		f := newFakes(t, latest)
		f.put(savedModel, "one")
		f.put("assets.extra/afo.json", text)
		f.look()
		f.answers("one", expected)
	}
}
