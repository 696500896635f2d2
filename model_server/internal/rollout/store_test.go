package rollout

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestWhatIsHeldSurvives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "default.json")
	store, err := OpenStore(path)
	if err != nil {
		t.Fatal(err)
	}
	held, other := store.Of("ctr", "/models/ctr")
	if held.Pinned != 0 || other != "" {
		t.Error(held, other)
	}
	held.Pinned = 3
	held = held.Rejecting(4, time.Unix(1000, 0), "once").Rejecting(4, time.Unix(2000, 0), "again")
	if err := store.Keep("ctr", held); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	if store, err = OpenStore(path); err != nil {
		t.Fatal(err)
	}
	if found, _ := store.Of("ctr", "/models/ctr"); found.Pinned != 3 || fmt.Sprint(found.Rejected) != "[{4 2000 again}]" {
		t.Error(found)
	}
	if found, other := store.Of("ctr", "/elsewhere"); found.Pinned != 0 || found.BasePath != "/elsewhere" || other != "/models/ctr" {
		t.Error(found, other)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Error(entries)
	}
}

func TestAFileThatIsDamagedIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "default.json")
	for text, says := range map[string]string{
		"":                                    "EOF",
		"{":                                   "unexpected EOF",
		"{}":                                  "no key `models`",
		`{"models": {}} x`:                    "something follows",
		`{"models": {"a": {"pin": 1}}}`:       "unknown field",
		`{"models": {"a": {"pinned": -1}}}`:   "allowed: 0 or more",
		strings.Repeat(" ", mostStoreBytes+1): "bytes",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenStore(path); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "mend it, or remove it") {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func TestALinkToNothingIsNoFirstStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "default.json")
	target := filepath.Join(t.TempDir(), "away", "default.json")
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStore(path); err == nil || !strings.Contains(err.Error(), target+", which is not there; bring that back, or remove the link") {
		t.Error(err)
	}
}

func TestWhatCannotBeWrittenIsNotHeld(t *testing.T) {
	store, err := OpenStore(filepath.Join(t.TempDir(), "none", "default.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Keep("ctr", Held{Pinned: 3}); err == nil {
		t.Error("it is written nowhere")
	}
	if held, _ := store.Of("ctr", ""); held.Pinned != 0 {
		t.Error(held)
	}
}

func TestRejectionsAreBounded(t *testing.T) {
	held := Held{}
	for version := range int64(40) {
		held = held.Rejecting(version, time.Unix(0, 0), "")
	}
	if len(held.Rejected) != mostRejected || !held.Rejects(39) || held.Accepting(39).Rejects(39) || !held.Rejects(38) {
		t.Error(held)
	}
}

func TestOnlyANewerVersionThanAllThatWereRejectedHasItsTry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "default.json")
	store, err := OpenStore(path)
	if err != nil {
		t.Fatal(err)
	}
	held := Held{}.Answering(2)
	for version := int64(3); version < 40; version++ {
		held = held.Rejecting(version, time.Unix(0, 0), "")
	}
	if err := store.Keep("ctr", held); err != nil {
		t.Fatal(err)
	}
	if store, err = OpenStore(path); err != nil {
		t.Fatal(err)
	}
	held, _ = store.Of("ctr", "")
	for version, expected := range map[int64]bool{1: true, 2: true, 3: false, 22: false, 39: false, 40: true} {
		if held.TakesUp(version) != expected {
			t.Errorf("version %d: %v", version, !expected)
		}
	}
	if got := held.Default([]int64{30, 3, 2}, 0); got != 2 {
		t.Error(got)
	}
}

func TestAFileWithoutAFloorHasThatOfItsRejections(t *testing.T) {
	path := filepath.Join(t.TempDir(), "default.json")
	text := `{"models": {"ctr": {"base_path": "/m", "pinned": 0, "stable": 2, "rejected": [{"version": 5, "at": 1, "reason": ""}]}}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := OpenStore(path)
	if err != nil {
		t.Fatal(err)
	}
	if held, _ := store.Of("ctr", "/m"); held.Floor != 5 {
		t.Error(held)
	}
}

func TestAnotherSpellingOfAPlaceIsTheSamePlace(t *testing.T) {
	base := filepath.Join(t.TempDir(), "ctr")
	link := filepath.Join(t.TempDir(), "link")
	for _, err := range []error{os.Mkdir(base, 0o700), os.Symlink(base, link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	store, _ := OpenStore("")
	keep := func(held Held) {
		if err := store.Keep("ctr", held); err != nil {
			t.Fatal(err)
		}
	}
	keep(Held{BasePath: base, Pinned: 3})
	for _, same := range []string{base + "/", base + "/../ctr", link, link + "/"} {
		held, other := store.Of("ctr", same)
		if held.Pinned != 3 || other != "" || held.BasePath != same {
			t.Error(same, held, other)
		}
		keep(held)
	}
	if len(store.Elsewhere["ctr"]) != 0 {
		t.Error(store.Elsewhere)
	}
}

func TestWhatWasHeldAtAnotherPlaceComesBackWithIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "default.json")
	open := func() *Store {
		store, err := OpenStore(path)
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	store := open()
	for place := range 20 {
		if err := store.Keep("ctr", Held{BasePath: fmt.Sprint("/m", place), Pinned: int64(place)}); err != nil {
			t.Fatal(err)
		}
	}
	store = open()
	if held, other := store.Of("ctr", "/m18"); held.Pinned != 18 || other != "/m19" {
		t.Error(held, other)
	}
	if held, _ := store.Of("ctr", "/m1"); held.Pinned != 0 {
		t.Error("places have no bound", held)
	}
	if err := store.Keep("ctr", Held{BasePath: "/m18", Pinned: 7}); err != nil {
		t.Fatal(err)
	}
	if held, other := open().Of("ctr", "/m18/"); held.Pinned != 7 || other != "" {
		t.Error(held, other)
	}
	if held, _ := open().Of("ctr", "/m19"); held.Pinned != 19 {
		t.Error(held)
	}
}
